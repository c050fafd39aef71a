import { randomUUID } from "node:crypto";
import { expect } from "chai";
import {
  branchOpened,
  clinicRegistered,
  createIds,
  entitlementSet,
  membershipGranted,
  subscriptionChanged,
} from "../../support/clinics.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import type { GivenEvent } from "../../support/read-models.ts";

const path = "/api/v1/clinic/context";
const pastInstant = "2026-01-01T00:00:00.000Z";
const futureInstant = "2036-01-01T00:00:00.000Z";

describe("getClinicContext", () => {
  const api = setUpQueryApi();

  /** Creates a clinic with one branch and one owner. */
  async function createClinic(isSubscribed = true) {
    const [clinicId, branchId, userId] = createIds();
    await api.given(
      clinicRegistered(clinicId),
      branchOpened(clinicId, branchId),
      membershipGranted(clinicId, userId),
      ...(isSubscribed ? [subscriptionChanged(clinicId)] : []),
    );
    return { clinicId, branchId, userId };
  }

  const readContext = (userId: string) => api.read(path, userId);

  it("the portal operation getClinicContext returns clinic, branch, access, subscription and entitlements", async () => {
    const { clinicId, branchId, userId } = await createClinic();
    await api.given(
      entitlementSet(clinicId, { limit: 12.5, effectiveUntil: futureInstant }),
      entitlementSet(clinicId, { key: "reports.export", enabled: true, effectiveUntil: pastInstant }),
      entitlementSet(clinicId, { key: "sms", enabled: false }),
    );
    const { correlationId, generatedAt, ...body } = await readContext(userId);
    expect(body).to.deep.equal({
      ok: true,
      apiVersion: "v1",
      clinic: {
        id: clinicId,
        slug: "happy-paws",
        name: "Happy Paws",
        timezone: "Europe/Istanbul",
        currency: "TRY",
        locale: "tr-TR",
        status: "active",
        isDemo: false,
      },
      branch: { id: branchId, name: "Center", city: null },
      access: {
        role: "owner",
        permissions: ["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"],
        operational: { allowed: true, reason: null },
      },
      subscription: { plan: "pro", status: "active", currentPeriodEnd: "2027-01-01T00:00:00.000Z" },
      entitlements: {
        "reports.export": { enabled: false, limit: null, effectiveUntil: pastInstant },
        "scheduling.advanced": { enabled: true, limit: 12.5, effectiveUntil: futureInstant },
        sms: { enabled: false, limit: null, effectiveUntil: null },
      },
    });
    expect(Math.abs(Date.parse(generatedAt) - Date.now())).to.be.below(60_000);
    expect(correlationId).to.be.a("string");
  });

  it("getClinicContext returns the correlation id in a header and forbids caching", async () => {
    const { userId } = await createClinic();
    const { headers, body } = await api.get(path, userId);
    expect(headers.get("X-Correlation-ID")).to.equal(body.correlationId);
    expect(headers.get("Cache-Control")).to.equal("no-store");
    expect(headers.get("Content-Type")).to.match(/^application\/json/);
  });

  it("getClinicContext returns empty entitlements and a null subscription for a clinic that has neither", async () => {
    const { userId } = await createClinic(false);
    const body = await readContext(userId);
    expect(body.entitlements).to.deep.equal({});
    expect(body.subscription).to.equal(null);
  });

  const registered = (demoExpiresAt: string) => (clinicId: string) => [
    clinicRegistered(clinicId, { isDemo: true, demoExpiresAt }),
  ];
  const subscribed =
    (...subscription: [Parameters<typeof subscriptionChanged>[1], (string | null)?]) =>
    (clinicId: string) => [subscriptionChanged(clinicId, ...subscription)];
  const subscribedAnd = (type: "ClinicSuspended" | "ClinicClosed" | "ClinicReinstated") => (clinicId: string) => [
    subscriptionChanged(clinicId),
    ...(type === "ClinicReinstated" ? [{ type: "ClinicSuspended" as const, data: { clinicId, reason: "test" } }] : []),
    { type, data: { clinicId, reason: "test" } } as GivenEvent,
  ];
  const operationalCases: [title: string, reason: string | null, createEvents: (clinicId: string) => GivenEvent[]][] = [
    ["an active clinic with an active subscription", null, subscribed("active")],
    ["a subscription that is past due", null, subscribed("past_due")],
    ["a demo before its expiry", null, registered(futureInstant)],
    ["a demo past its expiry", "demo_expired", registered(pastInstant)],
    [
      "a demo past its expiry with a subscription",
      "demo_expired",
      (id) => [...registered(pastInstant)(id), subscriptionChanged(id)],
    ],
    ["an expired subscription", "subscription_inactive", subscribed("expired")],
    ["no subscription and no demo", "subscription_inactive", () => []],
    ["a suspended clinic", "clinic_suspended", subscribedAnd("ClinicSuspended")],
    ["a closed clinic", "clinic_closed", subscribedAnd("ClinicClosed")],
    ["a reinstated clinic", null, subscribedAnd("ClinicReinstated")],
    ["a trial within its period", null, subscribed("trialing", futureInstant)],
    ["a trial without an end", null, subscribed("trialing", null)],
    ["a trial past its period", "subscription_inactive", subscribed("trialing", pastInstant)],
    ["an active subscription whose renewal is late", null, subscribed("active", pastInstant)],
    ["a cancelled subscription that is paid for", null, subscribed("cancelled", futureInstant)],
    ["a cancelled subscription past its period", "subscription_inactive", subscribed("cancelled", pastInstant)],
    ["a cancelled subscription without an end", "subscription_inactive", subscribed("cancelled", null)],
  ];

  for (const [title, reason, createEvents] of operationalCases)
    it(`getClinicContext reports operational access as ${reason ?? "allowed"} for ${title}`, async () => {
      const { clinicId, userId } = await createClinic(false);
      await api.given(...createEvents(clinicId));
      expect((await readContext(userId)).access.operational).to.deep.equal({ allowed: reason === null, reason });
    });

  describe("clinic and branch resolution", () => {
    it("the portal selects the clinic of the oldest active membership, and ignores clinic ids in the query", async () => {
      const userId = randomUUID();
      const [revokedClinicId, invitedClinicId, oldestClinicId, newerClinicId] = createIds();
      const clinicIds = [revokedClinicId, invitedClinicId, oldestClinicId, newerClinicId];
      await api.given(...clinicIds.flatMap((id) => [clinicRegistered(id), branchOpened(id, randomUUID())]));
      const membershipId = randomUUID();
      await api.given(
        { ...membershipGranted(newerClinicId, userId), at: "2026-02-02T00:00:00.000Z" },
        { ...membershipGranted(oldestClinicId, userId), at: "2026-02-01T00:00:00.000Z" },
        { ...membershipGranted(invitedClinicId, userId, { acceptedAt: null }), at: pastInstant },
        { ...membershipGranted(revokedClinicId, userId, { membershipId }), at: pastInstant },
        { type: "MembershipRevoked", data: { membershipId, reason: null } },
      );
      expect((await readContext(userId)).clinic.id).to.equal(oldestClinicId);
      const responseWithIds = await api.get(`${path}?clinicId=${newerClinicId}&clinic_id=${newerClinicId}`, userId);
      expect(responseWithIds.body.clinic.id).to.equal(oldestClinicId);
    });

    it("the portal uses the clinic and branch that the user selected, while the membership permits that selection", async () => {
      const { clinicId: firstClinicId, branchId: mainBranchId, userId } = await createClinic();
      const [secondClinicId, sideBranchId, otherBranchId] = createIds();
      const membershipId = randomUUID();
      await api.given(
        clinicRegistered(secondClinicId),
        branchOpened(secondClinicId, otherBranchId),
        branchOpened(secondClinicId, sideBranchId, { name: "Side", isMain: false }),
        { ...membershipGranted(secondClinicId, userId, { membershipId }), at: "2026-06-01T00:00:00.000Z" },
        { type: "ClinicSelected", data: { userId, clinicId: secondClinicId, branchId: sideBranchId } },
      );
      const selectedContext = await readContext(userId);
      expect([selectedContext.clinic.id, selectedContext.branch.id]).to.deep.equal([secondClinicId, sideBranchId]);

      await api.given({
        type: "MembershipPermissionsChanged",
        data: { membershipId, role: "owner", permissions: [], branchAccess: "scoped", branchIds: [otherBranchId] },
      });
      expect((await readContext(userId)).branch.id).to.equal(otherBranchId);

      await api.given({ type: "MembershipRevoked", data: { membershipId, reason: null } });
      const fallbackContext = await readContext(userId);
      expect([fallbackContext.clinic.id, fallbackContext.branch.id]).to.deep.equal([firstClinicId, mainBranchId]);
    });

    it("the portal ignores a selected branch of another clinic", async () => {
      const ownClinic = await createClinic();
      const otherClinic = await createClinic();
      await api.given({
        type: "ClinicSelected",
        data: { userId: ownClinic.userId, clinicId: ownClinic.clinicId, branchId: otherClinic.branchId },
      });
      expect((await readContext(ownClinic.userId)).branch.id).to.equal(ownClinic.branchId);
    });

    it("if the main branch is out of scope, the portal uses the alphabetically first branch in scope", async () => {
      const [clinicId, userId, secondBranchId, firstBranchId] = createIds();
      await api.given(
        clinicRegistered(clinicId),
        branchOpened(clinicId, randomUUID()),
        branchOpened(clinicId, secondBranchId, { name: "B", isMain: false }),
        branchOpened(clinicId, firstBranchId, { name: "A", isMain: false }),
        membershipGranted(clinicId, userId, { branchAccess: "scoped", branchIds: [secondBranchId, firstBranchId] }),
      );
      expect((await readContext(userId)).branch.id).to.equal(firstBranchId);
    });
  });
});
