import { expect } from "chai";
import { addResource } from "../../../../command/operations/catalog-operations.ts";
import * as resources from "../../../../shared/domain/clinic/resource.ts";
import { resourceAggregate } from "../../../../shared/domain/clinic/resource.ts";
import * as services from "../../../../shared/domain/clinic/service.ts";
import { serviceAggregate } from "../../../../shared/domain/clinic/service.ts";
import { type ResourceEvent, resourceStreams, type ServiceEvent } from "../../../../shared/domain/events/clinic.ts";
import { given } from "../../../support/given.ts";
import { clinic } from "./a-clinic.ts";
import { clinicId, mainBranchId, otherClinicId, otherId, someId } from "./ids.ts";

const givenService = (...history: ServiceEvent[]) => given(serviceAggregate, ...history);
const givenResource = (...history: ResourceEvent[]) => given(resourceAggregate, ...history);

describe("a service", () => {
  const target = { clinicId, serviceId: someId };
  const offerInput = { ...target, name: "Consultation", category: null, price: 60, taxable: true };
  const offered: ServiceEvent = { type: "ServiceOffered", data: { ...offerInput, currency: "CHF" } };
  const repriced: ServiceEvent = { type: "ServiceRepriced", data: { serviceId: someId, price: 65 } };
  const withdrawn: ServiceEvent = { type: "ServiceWithdrawn", data: { serviceId: someId } };
  const reinstated: ServiceEvent = { type: "ServiceReinstated", data: { serviceId: someId } };

  it("a service can be offered only once, with a price in the clinic's currency", () => {
    givenService().when(services.offerService(offerInput, clinic), [offered]);
    givenService(offered, repriced).when(services.offerService(offerInput, clinic), []);
    givenService(offered).when(services.offerService({ ...offerInput, name: "Other" }, clinic), "service_exists");
  });
  it("repricing a service records an event only if the price differs", () => {
    const reprice = services.repriceService({ ...target, price: 65 });
    givenService(offered).whenOnce(reprice, repriced);
  });
  it("withdrawing a withdrawn service or reinstating an active service changes nothing", () => {
    givenService(offered).whenOnce(services.withdrawService(target), withdrawn);
    givenService(offered, withdrawn).when(services.reinstateService(target), [reinstated]);
    givenService(offered).when(services.reinstateService(target), []);
  });
  it("a service of another clinic is reported as missing", () => {
    const foreignTarget = { ...target, clinicId: otherClinicId };
    for (const decide of [services.withdrawService, services.reinstateService])
      givenService(offered).when(decide(foreignTarget), "service_not_found");
  });
});

describe("a resource", () => {
  const target = { clinicId, resourceId: someId };
  const resourceInput = {
    ...target,
    branchId: mainBranchId,
    resourceType: "room",
    name: "Room 1",
    capacity: 1,
    timezone: null,
    metadata: { floor: 2 },
  };
  const added: ResourceEvent = { type: "ResourceAdded", data: { ...resourceInput, timezone: "Europe/Zurich" } };
  const retired: ResourceEvent = { type: "ResourceRetired", data: { resourceId: someId } };

  it("a resource can be added only once, and the default time zone of a resource is the clinic's time zone", () => {
    givenResource().when(resources.addResource(resourceInput, clinic), [added]);
    givenResource(added, retired).when(resources.addResource(resourceInput, clinic), []);
    const metadata = { floor: 3 };
    givenResource(added).when(resources.addResource({ ...resourceInput, metadata }, clinic), "resource_exists");
  });
  it("a resource needs a branch of the clinic and a valid time zone", () => {
    givenResource().when(resources.addResource({ ...resourceInput, branchId: otherId }, clinic), "branch_not_found");
    const { timezone } = addResource.command.input.shape;
    expect(timezone?.safeParse("Mars/Olympus").success).to.equal(false);
    expect(timezone?.safeParse("Europe/Zurich").success).to.equal(true);
  });
  it("retiring a retired resource changes nothing", () => {
    givenResource(added).whenOnce(resources.retireResource(target), retired);
    givenResource(added).when(resources.retireResource({ ...target, clinicId: otherClinicId }), "resource_not_found");
  });

  const rule = {
    ruleId: otherId,
    weekday: 1,
    startsAt: "08:00:00",
    endsAt: "18:00:00",
    validFrom: null,
    validUntil: null,
    ruleType: "opening_hours",
    recurrence: null,
  };
  const ruleSet: ResourceEvent = { type: "AvailabilityRuleSet", data: { resourceId: someId, ...rule } };
  const ruleRemoved: ResourceEvent = { type: "AvailabilityRuleRemoved", data: { resourceId: someId, ruleId: otherId } };

  it("an availability rule is set, replaced and removed", () => {
    givenResource(added).whenOnce(resources.setRule({ ...target, ...rule }), ruleSet);
    const otherRule = { ...rule, weekday: 2 };
    givenResource(added, ruleSet).when(resources.setRule({ ...target, ...otherRule }), [
      { type: "AvailabilityRuleSet", data: { resourceId: someId, ...otherRule } },
    ]);
    const removeRule = resources.removeRule({ ...target, ruleId: otherId });
    givenResource(added, ruleSet).whenOnce(removeRule, ruleRemoved);
  });
  it("an availability rule may end at the end of the day", () => {
    const nightRule = { ...rule, startsAt: "00:00:00", endsAt: "24:00:00" };
    givenResource(added).when(resources.setRule({ ...target, ...nightRule }), [
      { type: "AvailabilityRuleSet", data: { resourceId: someId, ...nightRule } },
    ]);
    const { startsAt, endsAt } = resourceStreams.events.AvailabilityRuleSet.shape;
    for (const [schema, text, isValid] of [
      [endsAt, "24:00:00", true],
      [endsAt, "23:59:59", true],
      [endsAt, "24:00:01", false],
      [endsAt, "24:01:00", false],
      [endsAt, "25:00:00", false],
      [startsAt, "24:00:00", false],
    ] as const)
      expect(schema.safeParse(text).success, text).to.equal(isValid);
  });
  const invalidRules = [
    { change: { startsAt: "22:00:00", endsAt: "06:00:00" }, code: "rule_ends_before_start" },
    { change: { startsAt: "22:00:00", endsAt: "00:00:00" }, code: "rule_ends_before_start" },
    { change: { endsAt: "08:00:00" }, code: "rule_ends_before_start" },
    { change: { validFrom: "2027-02-01", validUntil: "2027-01-01" }, code: "rule_never_valid" },
  ];
  for (const { change, code } of invalidRules)
    it(`an invalid availability rule is refused with ${code}`, () => {
      const setRule = resources.setRule({ ...target, ...rule, ...change });
      givenResource(added).when(setRule, code);
    });
  it("a retired resource accepts no availability rule", () => {
    givenResource(added, retired).when(resources.setRule({ ...target, ...rule }), "resource_retired");
  });
});
