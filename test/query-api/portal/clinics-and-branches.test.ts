import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { branchOpened, clinicRegistered, createIds, membershipGranted, openClinic } from "../../support/clinics.ts";
import { setUpQueryApi } from "../../support/query-api.ts";

describe("listAuthorizedClinics and listAuthorizedBranches", () => {
  const api = setUpQueryApi();

  const listNames = (items: { name: string }[]) => items.map(({ name }) => name);

  const listClinics = (userId: string) => api.read("/api/v1/clinics", userId);
  const listBranches = (userId: string) => api.read("/api/v1/branches", userId);

  it("listAuthorizedClinics returns the clinics of active memberships sorted by name, with the user's access", async () => {
    const userId = randomUUID();
    const [bravoId, alphaId, invitedClinicId, revokedClinicId, scopedBranchId] = createIds();
    const clinicIds = [bravoId, alphaId, invitedClinicId, revokedClinicId];
    const membershipId = randomUUID();
    await api.given(
      ...clinicIds.map((id, index) =>
        clinicRegistered(id, {
          name: ["Bravo", "Alpha", "Invited", "Revoked"][index] as string,
          isDemo: index === 1,
          demoExpiresAt: index === 1 ? "2026-01-01T00:00:00Z" : null,
        }),
      ),
      branchOpened(bravoId, randomUUID()),
      branchOpened(alphaId, scopedBranchId),
      branchOpened(alphaId, randomUUID()),
      membershipGranted(bravoId, userId, { branchIds: [randomUUID()] }),
      membershipGranted(alphaId, userId, {
        role: "assistant",
        branchAccess: "scoped",
        branchIds: [scopedBranchId, randomUUID()],
      }),
      membershipGranted(invitedClinicId, userId, { acceptedAt: null }),
      membershipGranted(revokedClinicId, userId, { membershipId }),
      { type: "MembershipRevoked", data: { membershipId, reason: null } },
      { type: "ClinicClosed", data: { clinicId: bravoId, reason: "test" } },
    );
    const { clinics: clinicList, currentClinicId } = await listClinics(userId);
    expect(listNames(clinicList)).to.deep.equal(["Alpha", "Bravo"]);
    expect(clinicList[0]).to.deep.include({
      id: alphaId,
      city: "Izmir",
      isDemo: true,
      demoExpiresAt: "2026-01-01T00:00:00.000Z",
      access: { role: "assistant", branchAccess: "scoped", branchIds: [scopedBranchId] },
    });
    expect(clinicList[1]).to.deep.include({
      status: "closed",
      demoExpiresAt: null,
      access: { role: "owner", branchAccess: "all", branchIds: [] },
    });
    expect([alphaId, bravoId]).to.include(currentClinicId);
  });

  it("listAuthorizedClinics returns a clinic once for a user with several memberships", async () => {
    const { clinicId, userId } = await openClinic(api.given);
    await api.given({ ...membershipGranted(clinicId, userId, { role: "assistant" }), at: "2026-05-01T00:00:00.000Z" });
    const { clinics: clinicList } = await listClinics(userId);
    expect(clinicList.map(({ access }: { access: { role: string } }) => access.role)).to.deep.equal(["owner"]);
  });

  it("listAuthorizedClinics includes clinics without operational access and clinics without a branch in scope", async () => {
    const { clinicId } = await openClinic(api.given);
    const userId = randomUUID();
    await api.given(membershipGranted(clinicId, userId, { branchAccess: "scoped" }), {
      type: "ClinicSuspended",
      data: { clinicId, reason: "test" },
    });
    expect((await listClinics(userId)).currentClinicId).to.equal(clinicId);
    expect((await api.get("/api/v1/branches", userId)).body.error).to.equal("branch_not_in_scope");
  });

  it("listAuthorizedBranches returns the branches in scope sorted by name, and marks the current branch", async () => {
    const { clinicId, branchId, otherBranchId, userId } = await openClinic(api.given);
    const thirdBranchId = randomUUID();
    await api.given(branchOpened(clinicId, thirdBranchId, { name: "Annex", city: "Bornova", isMain: false }));
    const { correlationId, generatedAt, ...body } = await listBranches(userId);
    expect(body).to.deep.equal({
      ok: true,
      apiVersion: "v1",
      clinicId,
      currentBranchId: branchId,
      branches: [
        { id: thirdBranchId, name: "Annex", city: "Bornova", isMain: false, isCurrent: false },
        { id: branchId, name: "Center", city: null, isMain: true, isCurrent: true },
        { id: otherBranchId, name: "Harbour", city: null, isMain: false, isCurrent: false },
      ],
    });
    expect([correlationId, generatedAt]).to.not.include(undefined);

    const scopedUserId = randomUUID();
    const scope = { branchAccess: "scoped", branchIds: [otherBranchId, thirdBranchId] } as const;
    await api.given(membershipGranted(clinicId, scopedUserId, { ...scope, branchIds: [...scope.branchIds] }));
    expect(listNames((await listBranches(scopedUserId)).branches)).to.deep.equal(["Annex", "Harbour"]);
  });
});
