import { expect } from "chai";
import { registerClinicCommand } from "../../../../command/operations/clinic-operations.ts";
import * as clinics from "../../../../shared/domain/clinic/clinic.ts";
import { clinicAggregate } from "../../../../shared/domain/clinic/clinic.ts";
import { currencies, currency, locale } from "../../../../shared/domain/clinic/locality.ts";
import type { ClinicEvent } from "../../../../shared/domain/events/clinic.ts";
import { timeZone } from "../../../../shared/domain/time/time-zone.ts";
import { given } from "../../../support/given.ts";
import { branchesOpened, registered, registration } from "./a-clinic.ts";
import { clinicId, mainBranchId, otherBranchId, someId } from "./ids.ts";

const givenClinic = (...history: ClinicEvent[]) => given(clinicAggregate, ...history);

/** Withdrawn currency codes that the JavaScript runtime still accepts. */
const WITHDRAWN_CURRENCIES = ["ANG", "BGN", "CUC", "HRK", "SLL", "ZWL"];
const UNITS_OF_ACCOUNT = ["XDR", "XSU"];

const suspended: ClinicEvent = { type: "ClinicSuspended", data: { clinicId, reason: "Overdue" } };
const closed: ClinicEvent = { type: "ClinicClosed", data: { clinicId, reason: "Given up" } };

describe("registering a clinic", () => {
  it("a clinic with a new id is registered", () => {
    givenClinic().when(clinics.registerClinic(registration), [registered]);
  });
  it("repeating a clinic's registration changes nothing", () => {
    givenClinic(registered, suspended).when(clinics.registerClinic(registration), []);
  });
  it("a clinic cannot be registered with the id of another clinic", () => {
    const otherRegistration = { ...registration, name: "Other" };
    givenClinic(registered).when(clinics.registerClinic(otherRegistration), "clinic_exists");
  });
  for (const [field, schema, values] of [
    ["timezone", timeZone, ["Europe/Atlantis", "+02:00", "", "europe", "US/Eastern", "EST"]],
    ["currency", currency, ["ABC", "chf", ...WITHDRAWN_CURRENCIES, ...UNITS_OF_ACCOUNT]],
    ["locale", locale, ["not a locale", "zz-ZZ"]],
  ] as const)
    for (const value of values)
      it(`a clinic cannot be registered with the ${field} "${value}"`, () => {
        expect(registerClinicCommand.input.shape[field]).to.equal(schema);
        expect(schema.safeParse(value).success).to.equal(false);
        expect(schema.safeParse(registration[field]).success).to.equal(true);
      });

  it("a clinic can be registered with each currency that the runtime knows and that is not withdrawn", () => {
    const refusedCurrencies = [...WITHDRAWN_CURRENCIES, ...UNITS_OF_ACCOUNT];
    const missingCurrencies = Intl.supportedValuesOf("currency").filter((code) => !currencies.has(code));
    for (const code of missingCurrencies) expect(refusedCurrencies).to.include(code);
    for (const code of currencies) expect([...Intl.supportedValuesOf("currency"), "VED"], code).to.include(code);
    expect(currencies).to.have.property("size", 155);
  });
  it("a clinic that is not a demo cannot be registered with an expiry time", () => {
    const expiringRegistration = { ...registration, demoExpiresAt: "2027-01-01T00:00:00.000Z" };
    givenClinic().when(clinics.registerClinic(expiringRegistration), "expiry_without_demo");
  });
});

describe("the lifecycle of a clinic", () => {
  const suspend = clinics.suspendClinic({ clinicId, reason: "Overdue" });
  const reinstate = clinics.reinstateClinic({ clinicId });
  const close = clinics.closeClinic({ clinicId, reason: "Given up" });

  it("suspending a suspended clinic changes nothing", () => {
    givenClinic(registered).whenOnce(suspend, suspended);
  });
  it("reinstating an active clinic changes nothing", () => {
    const reinstated: ClinicEvent = { type: "ClinicReinstated", data: { clinicId } };
    givenClinic(registered, suspended).whenOnce(reinstate, reinstated);
  });
  it("a closed clinic cannot be suspended or reinstated", () => {
    givenClinic(registered, suspended).when(close, [closed]);
    givenClinic(registered, closed).when(close, []);
    for (const decide of [suspend, reinstate]) givenClinic(registered, closed).when(decide, "clinic_closed");
  });
  it("an unknown clinic cannot be suspended, reinstated or closed", () => {
    for (const decide of [suspend, reinstate, close]) givenClinic().when(decide, "clinic_not_found");
  });
});

describe("a clinic's branches", () => {
  const [mainBranch, secondBranch] = branchesOpened as [ClinicEvent, ClinicEvent];
  const open = (branchId: string, name: string, city: string | null) =>
    clinics.openBranch({ clinicId, branchId, name, city });

  it("only the first branch of a clinic is its main branch", () => {
    givenClinic(registered).when(open(mainBranchId, "Old Town", null), [mainBranch]);
    givenClinic(registered, mainBranch).when(open(otherBranchId, "Lakeside", "Zug"), [secondBranch]);
  });
  it("repeating the opening of a branch changes nothing, and another branch with the same id is refused", () => {
    givenClinic(registered, mainBranch).when(open(mainBranchId, "Old Town", null), []);
    givenClinic(registered, mainBranch).when(open(mainBranchId, "Other", null), "branch_exists");
  });
  it("a clinic's state lists the branches in opening order", () => {
    const { state } = givenClinic(registered, mainBranch, secondBranch);
    expect(state?.branches.map(({ id, isMain }) => [id, isMain])).to.deep.equal([
      [mainBranchId, true],
      [otherBranchId, false],
    ]);
    expect(state).to.include({ status: "active", sandboxGeneration: 0, currency: "CHF" });
  });
  it("a branch cannot be opened in a closed clinic", () => {
    givenClinic(registered, closed).when(open(someId, "New", null), "clinic_closed");
  });
});

describe("a clinic's subscription and entitlements", () => {
  const subscription = { plan: "pro", status: "active" as const, currentPeriodEnd: null };
  const entitlement = { clinicId, key: "scheduling.advanced", enabled: true, limit: null, effectiveUntil: null };
  const subscribed: ClinicEvent = { type: "SubscriptionChanged", data: { clinicId, ...subscription } };
  const entitled: ClinicEvent = { type: "EntitlementSet", data: entitlement };

  it("changing a subscription records an event only if the data differs", () => {
    const changeSubscription = clinics.changeSubscription({ clinicId, ...subscription });
    givenClinic(registered).whenOnce(changeSubscription, subscribed);
    const cancelledSubscription = { clinicId, ...subscription, status: "cancelled" as const };
    givenClinic(registered, subscribed).when(clinics.changeSubscription(cancelledSubscription), [
      { type: "SubscriptionChanged", data: cancelledSubscription },
    ]);
  });
  it("setting an entitlement records an event only if the data differs", () => {
    givenClinic(registered).whenOnce(clinics.setEntitlement(entitlement), entitled);
    const disabledEntitlement = { ...entitlement, enabled: false };
    givenClinic(registered, entitled).when(clinics.setEntitlement(disabledEntitlement), [
      { type: "EntitlementSet", data: disabledEntitlement },
    ]);
  });
});

describe("a clinic's retention rules", () => {
  const rule = { clinicId, category: "notes" as const, months: 60 };
  const ruleSet: ClinicEvent = { type: "RetentionRuleSet", data: rule };
  const removed: ClinicEvent = { type: "RetentionRuleSet", data: { ...rule, months: null } };

  it("setting or removing a retention rule records an event only if the rule differs", () => {
    givenClinic(registered).whenOnce(clinics.setRetentionRule(rule), ruleSet);
    const remove = clinics.setRetentionRule({ ...rule, months: null });
    givenClinic(registered, ruleSet).when(remove, [removed]);
    givenClinic(registered).when(remove, []);
    expect(givenClinic(registered, ruleSet).state?.retentionMonths).to.deep.equal({ notes: 60 });
    expect(givenClinic(registered, ruleSet, removed).state?.retentionMonths).to.deep.equal({});
  });
  it("a closed clinic can set a retention rule, because it still has customers' data", () => {
    givenClinic(registered, closed).when(clinics.setRetentionRule(rule), [ruleSet]);
  });
});
