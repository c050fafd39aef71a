import {
  decideAddResource,
  decideRemoveRule,
  decideRetireResource,
  decideSetRule,
  resourceAggregate,
} from "../../../../shared/domain/clinic/resource.ts";
import {
  decideOfferService,
  decideReinstateService,
  decideRepriceService,
  decideWithdrawService,
  serviceAggregate,
} from "../../../../shared/domain/clinic/service.ts";
import type { ResourceEvent, ServiceEvent } from "../../../../shared/domain/events/clinic.ts";
import { given } from "../../../support/given.ts";
import { clinic } from "./a-clinic.ts";
import { clinicId, mainBranchId, otherClinicId, otherId, someId } from "./ids.ts";

describe("a service", () => {
  const of = { clinicId, serviceId: someId };
  const offer = { ...of, name: "Consultation", category: null, price: 60, taxable: true };
  const offered: ServiceEvent = { type: "ServiceOffered", data: { ...offer, currency: "CHF" } };
  const repriced: ServiceEvent = { type: "ServiceRepriced", data: { serviceId: someId, price: 65 } };
  const withdrawn: ServiceEvent = { type: "ServiceWithdrawn", data: { serviceId: someId } };
  const reinstated: ServiceEvent = { type: "ServiceReinstated", data: { serviceId: someId } };

  it("a service can be offered only once, with a price in the clinic's currency", () => {
    given(serviceAggregate).when(decideOfferService(offer, clinic)).thenEvents(offered);
    given(serviceAggregate, offered, repriced).when(decideOfferService(offer, clinic)).thenEvents();
    given(serviceAggregate, offered)
      .when(decideOfferService({ ...offer, name: "Other" }, clinic))
      .thenRefused("service_exists");
  });
  it("repricing a service records an event only if the price differs", () => {
    const reprice = decideRepriceService({ ...of, price: 65 });
    given(serviceAggregate, offered).when(reprice).thenEvents(repriced);
    given(serviceAggregate, offered, repriced).when(reprice).thenEvents();
  });
  it("withdrawing a withdrawn service or reinstating an active service changes nothing", () => {
    given(serviceAggregate, offered).when(decideWithdrawService(of)).thenEvents(withdrawn);
    given(serviceAggregate, offered, withdrawn).when(decideWithdrawService(of)).thenEvents();
    given(serviceAggregate, offered, withdrawn).when(decideReinstateService(of)).thenEvents(reinstated);
    given(serviceAggregate, offered).when(decideReinstateService(of)).thenEvents();
  });
  it("a service of another clinic is reported as missing", () => {
    const ofOther = { ...of, clinicId: otherClinicId };
    for (const decide of [decideWithdrawService, decideReinstateService]) {
      given(serviceAggregate, offered).when(decide(ofOther)).thenRefused("service_not_found");
    }
  });
});

describe("a resource", () => {
  const of = { clinicId, resourceId: someId };
  const addition = {
    ...{ ...of, branchId: mainBranchId, resourceType: "room", name: "Room 1", capacity: 1 },
    ...{ timezone: null, metadata: { floor: 2 } },
  };
  const added: ResourceEvent = { type: "ResourceAdded", data: { ...addition, timezone: "Europe/Zurich" } };
  const retired: ResourceEvent = { type: "ResourceRetired", data: { resourceId: someId } };

  it("a resource can be added only once, and the default time zone of a resource is the clinic's time zone", () => {
    given(resourceAggregate).when(decideAddResource(addition, clinic)).thenEvents(added);
    given(resourceAggregate, added, retired).when(decideAddResource(addition, clinic)).thenEvents();
    const metadata = { floor: 3 };
    given(resourceAggregate, added)
      .when(decideAddResource({ ...addition, metadata }, clinic))
      .thenRefused("resource_exists");
  });
  it("a resource needs a branch of the clinic and a valid time zone", () => {
    given(resourceAggregate)
      .when(decideAddResource({ ...addition, branchId: otherId }, clinic))
      .thenRefused("branch_not_found");
    given(resourceAggregate)
      .when(decideAddResource({ ...addition, timezone: "Mars/Olympus" }, clinic))
      .thenRefused("invalid_timezone");
  });
  it("retiring a retired resource changes nothing", () => {
    given(resourceAggregate, added).when(decideRetireResource(of)).thenEvents(retired);
    given(resourceAggregate, added, retired).when(decideRetireResource(of)).thenEvents();
    given(resourceAggregate, added)
      .when(decideRetireResource({ ...of, clinicId: otherClinicId }))
      .thenRefused("resource_not_found");
  });

  const rule = {
    ...{ ruleId: otherId, weekday: 1, startsAt: "08:00:00", endsAt: "18:00:00" },
    ...{ validFrom: null, validUntil: null, ruleType: "opening_hours", recurrence: null },
  };
  const ruled: ResourceEvent = { type: "AvailabilityRuleSet", data: { resourceId: someId, ...rule } };
  const removed: ResourceEvent = {
    type: "AvailabilityRuleRemoved",
    data: { resourceId: someId, ruleId: otherId },
  };

  it("an availability rule is set, replaced and removed", () => {
    given(resourceAggregate, added)
      .when(decideSetRule({ ...of, rule }))
      .thenEvents(ruled);
    given(resourceAggregate, added, ruled)
      .when(decideSetRule({ ...of, rule }))
      .thenEvents();
    const other = { ...rule, weekday: 2 };
    given(resourceAggregate, added, ruled)
      .when(decideSetRule({ ...of, rule: other }))
      .thenEvents({ type: "AvailabilityRuleSet", data: { resourceId: someId, ...other } });
    const remove = decideRemoveRule({ ...of, ruleId: otherId });
    given(resourceAggregate, added, ruled).when(remove).thenEvents(removed);
    given(resourceAggregate, added, ruled, removed).when(remove).thenEvents();
  });
  const wrong = [
    { change: { endsAt: "08:00:00" }, code: "rule_ends_before_start" },
    { change: { validFrom: "2027-02-01", validUntil: "2027-01-01" }, code: "rule_never_valid" },
  ];
  for (const { change, code } of wrong) {
    it(`an invalid availability rule is refused with ${code}`, () => {
      const set = decideSetRule({ ...of, rule: { ...rule, ...change } });
      given(resourceAggregate, added).when(set).thenRefused(code);
    });
  }
  it("a retired resource accepts no availability rule", () => {
    given(resourceAggregate, added, retired)
      .when(decideSetRule({ ...of, rule }))
      .thenRefused("resource_retired");
  });
});
