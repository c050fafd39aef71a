import {
  acceptMembership,
  deactivateStaff,
  grantMembership,
  hireStaff,
  selectClinic,
} from "../../../command/operations/people-operations.ts";
import type { MembershipRights } from "../../../shared/domain/clinic/membership.ts";
import type { DemoClinic } from "./clinics.ts";
import { demoId } from "./random.ts";
import type { Chain } from "./steps.ts";

const DAY = 86_400_000;

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

/** Returns one portal user for each role at the clinic. */
export function createDemoUsers(clinic: DemoClinic): DemoUser[] {
  return (Object.keys(PERMISSIONS) as Role[]).map((role, index) => ({
    id: demoId(clinic.slug, "user", role),
    name: `${clinic.firstNames[index]} ${clinic.lastNames[index]}`,
    email: `${role}@${clinic.slug}.example`,
    role,
    clinic,
  }));
}

/** Hires a staff member and grants portal access. A receptionist has access only to the last branch. */
export function addPortalUser({ id: userId, name, email, role, clinic }: DemoUser, now: number): Chain {
  const clinicId = clinic.id;
  const staffId = demoId(clinic.slug, "staff", role);
  const membershipId = demoId(clinic.slug, "membership", role);
  const scoped = role === "receptionist";
  const grant = {
    ...{ membershipId, clinicId, userId, staffId, role, permissions: PERMISSIONS[role], acceptedAt: null },
    branchAccess: scoped ? ("scoped" as const) : ("all" as const),
    branchIds: scoped ? clinic.branches.slice(-1).map(({ id }) => id) : [],
  };
  const hire = { staffId, clinicId, userId, fullName: name, email, role };
  const prefix = `${clinic.slug} ${role}`;
  return [
    { name: `${prefix} hired`, at: now - 380 * DAY, run: (log, context) => hireStaff(log, hire, context) },
    {
      name: `${prefix} granted`,
      at: now - 379 * DAY,
      run: (log, context) => grantMembership(log, grant, context),
    },
    {
      name: `${prefix} accepted`,
      at: now - 378 * DAY,
      run: (log, context) => acceptMembership(log, { clinicId, membershipId }, context),
    },
  ];
}

/** Adds two staff members without portal access: one is active, one has left. */
export function addOtherStaff(clinic: DemoClinic, now: number): Chain[] {
  const { id: clinicId, slug } = clinic;
  return [5, 6].map((index) => {
    const staffId = demoId(slug, "staff", index);
    const fullName = `${clinic.firstNames[index]} ${clinic.lastNames[index]}`;
    const hire = { staffId, clinicId, userId: null, fullName, email: null, role: "assistant" as const };
    const chain: Chain = [
      {
        name: `${slug} staff ${index}`,
        at: now - 200 * DAY,
        run: (log, context) => hireStaff(log, hire, context),
      },
    ];
    if (index === 6)
      chain.push({
        name: `${slug} staff ${index} left`,
        at: now - 20 * DAY,
        run: (log, context) => deactivateStaff(log, { clinicId, staffId }, context),
      });
    return chain;
  });
}

/** Selects a clinic for the user, without a branch. */
export function selectClinicOf({ id: userId, role, clinic }: DemoUser, now: number): Chain {
  return [
    {
      name: `${clinic.slug} ${role} selects`,
      at: now,
      run: (log, context) => selectClinic(log, { userId, clinicId: clinic.id, branchId: null }, context),
    },
  ];
}
