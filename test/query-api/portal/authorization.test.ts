import { randomUUID } from "node:crypto";
import { expect } from "chai";
import fc from "fast-check";
import { createPortalOperations } from "../../../query-api/portal/operations.ts";
import type { Permission } from "../../../shared/domain/events/people.ts";
import {
  branchOpened,
  clinicRegistered,
  createIds,
  entitlementSet,
  membershipGranted,
  subscriptionChanged,
} from "../../support/clinics.ts";
import { eventually } from "../../support/eventually.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import type { GivenEvent } from "../../support/read-models.ts";

/** Requirements of each portal operation, copied from the interface document and not from the code. */
const requirementsByPath: Record<
  string,
  { needsBranch: boolean; permission?: Permission; needsEntitlement?: true; needsOperationalAccess: boolean }
> = {
  "/api/v1/clinic/context": { needsBranch: true, needsOperationalAccess: false },
  "/api/v1/clinics": { needsBranch: false, needsOperationalAccess: false },
  "/api/v1/branches": { needsBranch: true, needsOperationalAccess: true },
  "/api/v1/services": { needsBranch: true, needsOperationalAccess: true },
  "/api/v1/staff": { needsBranch: true, needsOperationalAccess: true, permission: "manage_staff" },
  "/api/v1/customers": { needsBranch: true, needsOperationalAccess: true, permission: "view_clinical" },
  "/api/v1/appointments": { needsBranch: true, needsOperationalAccess: true, permission: "manage_schedule" },
  "/api/v1/availability": { needsBranch: true, needsOperationalAccess: true, needsEntitlement: true },
  "/api/v1/queue": { needsBranch: true, needsOperationalAccess: true },
};

const permissionsByRole: Record<string, Permission[]> = {
  owner: ["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"],
  manager: ["manage_staff", "view_clinical", "manage_schedule"],
  veterinarian: ["view_clinical", "manage_schedule"],
  receptionist: ["manage_schedule"],
  assistant: [],
};

/** A caller with full access, or with one unmet condition. */
interface Situation {
  membership?: "none" | "invited" | "revoked";
  scope?: "all" | "this branch" | "another clinic's branch";
  isOperational?: false;
  isEntitled?: false;
  createChange?(clinicId: string): GivenEvent;
}

const situations: Record<string, Situation> = {
  "all conditions are met": {},
  "the membership includes only this branch": { scope: "this branch" },
  "the membership includes only a branch of another clinic": { scope: "another clinic's branch" },
  "the user has no membership": { membership: "none" },
  "the invitation is not accepted": { membership: "invited" },
  "the membership is revoked": { membership: "revoked" },
  "the clinic is suspended": {
    isOperational: false,
    createChange: (clinicId) => ({ type: "ClinicSuspended", data: { clinicId, reason: "unpaid" } }),
  },
  "the entitlement is disabled": {
    isEntitled: false,
    createChange: (clinicId) => entitlementSet(clinicId, { enabled: false }),
  },
  "the entitlement has expired": {
    isEntitled: false,
    createChange: (clinicId) => entitlementSet(clinicId, { effectiveUntil: "2020-01-01T00:00:00.000Z" }),
  },
};

/** Returns the error code of the expected 403; undefined if 200 is expected. */
function getExpectedRefusal(path: string, role: string, situation: Situation): string | undefined {
  const { needsBranch, permission, needsEntitlement, needsOperationalAccess } = requirementsByPath[path]!;
  if (situation.membership) return "no_active_membership";
  if (needsBranch && situation.scope === "another clinic's branch") return "branch_not_in_scope";
  if (permission && !permissionsByRole[role]!.includes(permission)) return "permission_required";
  if (needsEntitlement && situation.isEntitled === false) return "entitlement_required";
  if (needsOperationalAccess && situation.isOperational === false) return "operational_access_denied";
  return undefined;
}

/** Generates parameter values: random texts, and texts that parsers often handle wrongly. */
const valueArbitrary = fc.oneof(
  fc.string({ unit: "binary", maxLength: 40 }),
  fc.constantFrom("NaN", "Infinity", "-0", "1e400", "0x10", "9".repeat(400), "-".repeat(9), "null", "'; --"),
  fc.constantFrom("0000-01-01T00:00:00Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59Z", "2026-02-30"),
  fc.integer().map(String),
  fc.date({ noInvalidDate: true }).map((date) => date.toISOString()),
);
const parameterNames = ["limit", "offset", "from", "to", "status", "includeInactive", "cursor", "__proto__"];
const nameArbitrary = fc.constantFrom(...parameterNames);

describe("authorization and parameters of the portal API", () => {
  const api = setUpQueryApi();

  /** Creates a portal user with the given role in the given situation, and returns the user's id. */
  async function createUser(role: string, { membership, scope = "all", createChange }: Situation): Promise<string> {
    const [clinicId, branchId, otherClinicId, otherClinicBranchId, userId, membershipId] = createIds();
    const branchIds = { all: [], "this branch": [branchId], "another clinic's branch": [otherClinicBranchId] }[scope];
    const membershipEvent = membershipGranted(clinicId, userId, {
      membershipId,
      role: role as "owner",
      permissions: permissionsByRole[role]!,
      branchAccess: scope === "all" ? "all" : "scoped",
      branchIds,
      ...(membership === "invited" ? { acceptedAt: null } : {}),
    });
    const revocationEvent: GivenEvent = { type: "MembershipRevoked", data: { membershipId, reason: null } };
    await api.given(
      clinicRegistered(otherClinicId),
      branchOpened(otherClinicId, otherClinicBranchId),
      clinicRegistered(clinicId),
      subscriptionChanged(clinicId),
      entitlementSet(clinicId),
      branchOpened(clinicId, branchId),
      ...(createChange ? [createChange(clinicId)] : []),
      ...(membership === "none" ? [] : [membershipEvent]),
      ...(membership === "revoked" ? [revocationEvent] : []),
    );
    return userId;
  }

  it("the requirements in the tests cover every portal operation", () => {
    const paths = createPortalOperations({ operatorName: "Test" }).map(({ path }) => path);
    expect(paths).to.have.members(Object.keys(requirementsByPath));
  });

  for (const [title, situation] of Object.entries(situations))
    for (const role of Object.keys(permissionsByRole))
      it(`if ${title}, each portal operation permits or refuses the role ${role} as required`, async () => {
        const userId = await createUser(role, situation);
        const paths = Object.keys(requirementsByPath);
        // On a busy machine, a read can exceed its time limit.
        const read = (path: string) =>
          eventually("a response other than 503", async () => {
            const response = await api.get(path, userId);
            return response.status !== 503 && response;
          });
        const responses = await Promise.all(paths.map(read));
        expect(responses.map(({ status, body }, index) => `${paths[index]} ${status} ${body.error}`)).to.deep.equal(
          paths.map((path) => {
            const refusal = getExpectedRefusal(path, role, situation);
            return `${path} ${refusal ? 403 : 200} ${refusal}`;
          }),
        );
      });

  it("a permission is required even of an owner", async () => {
    const [clinicId, userId] = createIds();
    await api.given(
      clinicRegistered(clinicId),
      subscriptionChanged(clinicId),
      branchOpened(clinicId, randomUUID()),
      membershipGranted(clinicId, userId, { role: "owner", permissions: [] }),
    );
    for (const [path, { permission }] of Object.entries(requirementsByPath))
      if (permission) expect((await api.get(path, userId)).body.error, path).to.equal("permission_required");
  });

  for (const operation of ["customers", "appointments", "services", "availability"])
    it(`GET /api/v1/${operation} returns 200 for any query parameters`, async () => {
      const userId = await createUser("owner", {});
      await fc.assert(
        fc.asyncProperty(fc.array(fc.tuple(nameArbitrary, valueArbitrary), { maxLength: 5 }), async (pairs) => {
          const query = pairs.map((pair) => pair.map(encodeURIComponent).join("=")).join("&");
          const { status, body } = await api.get(`/api/v1/${operation}?${query}`, userId);
          expect(status, JSON.stringify(body)).to.equal(200);
        }),
        { numRuns: 40 },
      );
    });

  for (const path of Object.keys(requirementsByPath))
    it(`${path} requires a session, supports only GET and HEAD, and returns 200 even for unusual parameters`, async () => {
      expect((await api.get(path)).status).to.equal(401);
      const postResponse = await fetch(api.url + path, { method: "POST" });
      expect([postResponse.status, postResponse.headers.get("Allow")]).to.deep.equal([405, "GET, HEAD"]);
      const userId = await createUser("owner", {});
      const unusualUrl = `${path}?limit=-1e999&offset=%00&from=x&to[]=1&status=__proto__&includeInactive=TRUE&limit=9&x=${"y".repeat(2_000)}`;
      expect((await api.get(unusualUrl, userId)).status).to.equal(200);
    });
});
