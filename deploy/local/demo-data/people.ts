import {
  acceptMembership,
  deactivateStaff,
  grantMembership,
  hireStaff,
  selectClinic,
} from "../../../command/operations/people-operations.ts";
import type { MembershipRights } from "../../../shared/domain/clinic/membership.ts";
import { DAY_MS } from "../../../shared/domain/time/local-time.ts";
import type { DemoClinic } from "./clinics.ts";
import { deriveDemoId } from "./random.ts";
import { createStep, type StepSequence } from "./steps.ts";

type Role = MembershipRights["role"];

const PERMISSIONS: Record<Role, MembershipRights["permissions"]> = {
  owner: ["manage_staff", "view_clinical", "manage_schedule", "manage_tenant"],
  manager: ["manage_staff", "view_clinical", "manage_schedule"],
  veterinarian: ["view_clinical", "manage_schedule"],
  receptionist: ["manage_schedule"],
  assistant: ["view_clinical"],
};

export interface DemoUser {
  id: string;
  name: string;
  email: string;
  role: Role;
  clinic: DemoClinic;
}

/** Returns the clinic's portal users, one for each role. */
export function createDemoUsers(clinic: DemoClinic): DemoUser[] {
  return (Object.keys(PERMISSIONS) as Role[]).map((role, index) => ({
    id: deriveDemoId(clinic.slug, "user", role),
    name: `${clinic.firstNames[index]} ${clinic.lastNames[index]}`,
    email: `${role}@${clinic.slug}.example`,
    role,
    clinic,
  }));
}

/** Hires a staff member and grants portal access. Receptionists have access only to the clinic's last branch. */
export function addPortalUser({ id: userId, name, email, role, clinic }: DemoUser, now: number): StepSequence {
  const clinicId = clinic.id;
  const staffId = deriveDemoId(clinic.slug, "staff", role);
  const membershipId = deriveDemoId(clinic.slug, "membership", role);
  const isScoped = role === "receptionist";
  const grantInput = {
    ...{ membershipId, clinicId, userId, staffId, role, permissions: PERMISSIONS[role], acceptedAt: null },
    branchAccess: isScoped ? ("scoped" as const) : ("all" as const),
    branchIds: isScoped ? clinic.branches.slice(-1).map(({ id }) => id) : [],
  };
  const hireInput = { staffId, clinicId, userId, fullName: name, email, role };
  const prefix = `${clinic.slug} ${role}`;
  return [
    createStep(`${prefix} hired`, now - 380 * DAY_MS, hireStaff, hireInput),
    createStep(`${prefix} granted`, now - 379 * DAY_MS, grantMembership, grantInput),
    createStep(`${prefix} accepted`, now - 378 * DAY_MS, acceptMembership, { clinicId, membershipId }),
  ];
}

/** Adds two staff members without portal access. The second staff member has left the clinic. */
export function addOtherStaff(clinic: DemoClinic, now: number): StepSequence[] {
  const { id: clinicId, slug } = clinic;
  return [5, 6].map((index) => {
    const staffId = deriveDemoId(slug, "staff", index);
    const fullName = `${clinic.firstNames[index]} ${clinic.lastNames[index]}`;
    const hireInput = { staffId, clinicId, userId: null, fullName, email: null, role: "assistant" as const };
    const name = `${slug} staff ${index}`;
    const hireStep = createStep(name, now - 200 * DAY_MS, hireStaff, hireInput);
    if (index === 5) return [hireStep];
    return [hireStep, createStep(`${name} left`, now - 20 * DAY_MS, deactivateStaff, { clinicId, staffId })];
  });
}

/** Selects the user's clinic in the portal, without a branch. */
export function selectUserClinic({ id: userId, role, clinic }: DemoUser, now: number): StepSequence {
  const selectionInput = { userId, clinicId: clinic.id, branchId: null };
  return [createStep(`${clinic.slug} ${role} selects`, now, selectClinic, selectionInput)];
}
