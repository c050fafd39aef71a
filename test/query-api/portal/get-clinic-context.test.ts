import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { getClinicContext } from "../../../query-api/portal/clinics.ts";
import {
  branchOpened,
  clinicRegistered,
  createIds,
  entitlementSet,
  membershipGranted,
  subscriptionChanged,
} from "../../support/clinics.ts";
import { setUpQueryApi } from "../../support/query-api.ts";

const path = "/api/v1/clinic/context";
const pastInstant = "2026-01-01T00:00:00.000Z";
const futureInstant = "2036-01-01T00:00:00.000Z";

describe("getClinicContext", () => {
  const api = setUpQueryApi();

  /** Creates a clinic with one branch and one owner. */
  async function createClinic(
    options: { registeredFields?: object; subscriptionStatus?: Parameters<typeof subscriptionChanged>[1] | null } = {},
  ) {
    const ids = { clinicId: randomUUID(), branchId: randomUUID(), userId: randomUUID() };
    await api.given(
      clinicRegistered(ids.clinicId, options.registeredFields),
      branchOpened(ids.clinicId, ids.branchId),
      membershipGranted(ids.clinicId, ids.userId),
    );
    if (options.subscriptionStatus !== null)
      await api.given(subscriptionChanged(ids.clinicId, options.subscriptionStatus));
    return ids;
  }

  async function readContext(userId: string) {
    const response = await api.get(path, userId);
    expect(response.status, JSON.stringify(response.body)).to.equal(200);
    getClinicContext.response.parse(response.body);
    return response.body;
  }

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
    const { userId } = await createClinic({ registeredFields: { isDemo: true }, subscriptionStatus: null });
    const body = await readContext(userId);
    expect(body.entitlements).to.deep.equal({});
    expect(body.subscription).to.equal(null);
  });

  describe("operational access", () => {
    const demoFields = { isDemo: true, demoExpiresAt: futureInstant };
    const cases: [string, () => Promise<{ userId: string }>, string | null][] = [
      ["an active clinic with an active subscription", () => createClinic(), null],
      ["a subscription that is past due", () => createClinic({ subscriptionStatus: "past_due" }), null],
      [
        "a demo before its expiry",
        () => createClinic({ registeredFields: demoFields, subscriptionStatus: null }),
        null,
      ],
      [
        "a demo past its expiry",
        () =>
          createClinic({ registeredFields: { ...demoFields, demoExpiresAt: pastInstant }, subscriptionStatus: null }),
        "demo_expired",
      ],
      ["an expired subscription", () => createClinic({ subscriptionStatus: "expired" }), "subscription_inactive"],
      ["no subscription and no demo", () => createClinic({ subscriptionStatus: null }), "subscription_inactive"],
      ["a suspended clinic", () => createClinicWithEvent("ClinicSuspended"), "clinic_suspended"],
      ["a closed clinic", () => createClinicWithEvent("ClinicClosed"), "clinic_closed"],
      ["a trial within its period", () => createClinicWithPeriod("trialing", futureInstant), null],
      ["a trial without an end", () => createClinicWithPeriod("trialing", null), null],
      ["a trial past its period", () => createClinicWithPeriod("trialing", pastInstant), "subscription_inactive"],
      ["an active subscription whose renewal is late", () => createClinicWithPeriod("active", pastInstant), null],
      ["a cancelled subscription that is paid for", () => createClinicWithPeriod("cancelled", futureInstant), null],
      [
        "a cancelled subscription past its period",
        () => createClinicWithPeriod("cancelled", pastInstant),
        "subscription_inactive",
      ],
      [
        "a cancelled subscription without an end",
        () => createClinicWithPeriod("cancelled", null),
        "subscription_inactive",
      ],
    ];

    async function createClinicWithEvent(type: "ClinicSuspended" | "ClinicClosed") {
      const ids = await createClinic();
      await api.given({ type, data: { clinicId: ids.clinicId, reason: "test" } });
      return ids;
    }

    async function createClinicWithPeriod(status: "trialing" | "active" | "cancelled", periodEnd: string | null) {
      const ids = await createClinic({ subscriptionStatus: null });
      await api.given(subscriptionChanged(ids.clinicId, status, periodEnd));
      return ids;
    }

    for (const [title, createCase, reason] of cases)
      it(`getClinicContext reports operational access ${reason === null ? "as allowed" : `as refused (${reason})`} for ${title}`, async () => {
        const { access } = await readContext((await createCase()).userId);
        expect(access.operational).to.deep.equal({ allowed: reason === null, reason });
      });
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
