import {
  animalAggregate,
  decideChangeAnimal,
  decideRegisterAnimal,
  decideWeighAnimal,
} from "../../shared/domain/clinic/animal.ts";
import {
  customerAggregate,
  decideChangeCustomer,
  decideRegisterCustomer,
} from "../../shared/domain/clinic/customer.ts";
import {
  decideAcceptMembership,
  decideChangePermissions,
  decideGrantMembership,
  decideRevokeMembership,
  type Membership,
  membershipAggregate,
} from "../../shared/domain/clinic/membership.ts";
import { decideSelectClinic, portalUserAggregate } from "../../shared/domain/clinic/portal-user.ts";
import {
  decideDeactivateStaff,
  decideHireStaff,
  decideReactivateStaff,
  staffAggregate,
} from "../../shared/domain/clinic/staff.ts";
import { requireNotErased } from "../../shared/domain/personal-data/erasure.ts";
import { handle } from "../handling/handle.ts";
import {
  createClinicContext,
  defineClinicOperation,
  loadClinicObject,
  loadState,
  type Operation,
} from "./operation.ts";

/** Grants a membership. A staff member that the membership names must belong to the membership's clinic. */
export const grantMembership = defineClinicOperation(
  membershipAggregate,
  "membershipId",
  decideGrantMembership,
  async (log, { staffId, clinicId }) => {
    if (staffId !== null) await loadClinicObject(log, staffAggregate, staffId, clinicId, "staff_member");
  },
);
export const acceptMembership = defineClinicOperation(membershipAggregate, "membershipId", decideAcceptMembership);
export const changePermissions = defineClinicOperation(membershipAggregate, "membershipId", decideChangePermissions);

/**
 * Revokes a membership, also of a closed or deleted clinic. If the user's contact data is erased, a reason is refused,
 * because it is personal data.
 */
export const revokeMembership: Operation<Parameters<typeof decideRevokeMembership>[0], Membership> = async (
  log,
  revocation,
  context,
) => {
  const { membershipId, clinicId, reason } = revocation;
  const clinicContext = await createClinicContext(log, clinicId, context);
  const membership = await loadState(log, membershipAggregate, reason === null ? null : membershipId);
  const user = await loadState(log, portalUserAggregate, membership?.userId ?? null);
  return handle(log, membershipAggregate, membershipId, decideRevokeMembership(revocation, user), clinicContext);
};

export const hireStaff = defineClinicOperation(staffAggregate, "staffId", decideHireStaff);
export const deactivateStaff = defineClinicOperation(staffAggregate, "staffId", decideDeactivateStaff);
export const reactivateStaff = defineClinicOperation(staffAggregate, "staffId", decideReactivateStaff);

export const selectClinic = defineClinicOperation(portalUserAggregate, "userId", decideSelectClinic);

export const registerCustomer = defineClinicOperation(customerAggregate, "customerId", decideRegisterCustomer);
export const changeCustomer = defineClinicOperation(customerAggregate, "customerId", decideChangeCustomer);

/** Registers an animal. The animal's customer must belong to the same clinic, and must not be erased. */
export const registerAnimal = defineClinicOperation(
  animalAggregate,
  "animalId",
  decideRegisterAnimal,
  async (log, { customerId, clinicId }) =>
    requireNotErased(await loadClinicObject(log, customerAggregate, customerId, clinicId, "customer"), "customer"),
);
/** Changes an animal. The animal's customer must not be erased. */
export const changeAnimal = defineClinicOperation(
  animalAggregate,
  "animalId",
  decideChangeAnimal,
  async (log, { animalId, clinicId }) => {
    const { customerId } = await loadClinicObject(log, animalAggregate, animalId, clinicId, "animal");
    requireNotErased(await loadClinicObject(log, customerAggregate, customerId, clinicId, "customer"), "customer");
  },
);
export const weighAnimal = defineClinicOperation(animalAggregate, "animalId", decideWeighAnimal);
