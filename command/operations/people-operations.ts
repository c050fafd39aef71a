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
  membershipAggregate,
} from "../../shared/domain/clinic/membership.ts";
import {
  type ClinicSelection,
  decideSelectClinic,
  portalUserAggregate,
} from "../../shared/domain/clinic/portal-user.ts";
import {
  decideDeactivateStaff,
  decideHireStaff,
  decideReactivateStaff,
  staffAggregate,
} from "../../shared/domain/clinic/staff.ts";
import { clinicOperation, loadOwnedBy } from "./operation.ts";

const membershipIdOf = ({ membershipId }: { membershipId: string }) => membershipId;

/** The staff member of a membership must belong to the same clinic. */
export const grantMembership = clinicOperation(
  membershipAggregate,
  membershipIdOf,
  decideGrantMembership,
  async (log, { staffId, clinicId }) => {
    if (staffId !== null) await loadOwnedBy(log, staffAggregate, staffId, clinicId, "staff_member");
  },
);
export const acceptMembership = clinicOperation(membershipAggregate, membershipIdOf, decideAcceptMembership);
export const changePermissions = clinicOperation(
  membershipAggregate,
  membershipIdOf,
  decideChangePermissions,
);
export const revokeMembership = clinicOperation(membershipAggregate, membershipIdOf, decideRevokeMembership);

const staffIdOf = ({ staffId }: { staffId: string }) => staffId;

export const hireStaff = clinicOperation(staffAggregate, staffIdOf, decideHireStaff);
export const deactivateStaff = clinicOperation(staffAggregate, staffIdOf, decideDeactivateStaff);
export const reactivateStaff = clinicOperation(staffAggregate, staffIdOf, decideReactivateStaff);

export const selectClinic = clinicOperation(
  portalUserAggregate,
  ({ userId }: ClinicSelection) => userId,
  decideSelectClinic,
);

const customerIdOf = ({ customerId }: { customerId: string }) => customerId;

export const registerCustomer = clinicOperation(customerAggregate, customerIdOf, decideRegisterCustomer);
export const changeCustomer = clinicOperation(customerAggregate, customerIdOf, decideChangeCustomer);

const animalIdOf = ({ animalId }: { animalId: string }) => animalId;

/** The customer of an animal must belong to the same clinic. */
export const registerAnimal = clinicOperation(
  animalAggregate,
  animalIdOf,
  decideRegisterAnimal,
  (log, command) => loadOwnedBy(log, customerAggregate, command.customerId, command.clinicId, "customer"),
);
export const changeAnimal = clinicOperation(animalAggregate, animalIdOf, decideChangeAnimal);
export const weighAnimal = clinicOperation(animalAggregate, animalIdOf, decideWeighAnimal);
