import {
  decideAcceptMembership,
  decideChangePermissions,
  decideGrantMembership,
  decideRevokeMembership,
  membershipAggregate,
} from "../../shared/domain/clinic/membership.ts";
import { staffAggregate } from "../../shared/domain/clinic/staff.ts";
import { clinicOperation } from "./clinic-operation.ts";
import { loadOwned } from "./in-clinic.ts";

const id = ({ membershipId }: { membershipId: string }) => membershipId;

/** A membership may name a staff member, who must be of the same clinic. */
export const grantMembership = clinicOperation(
  membershipAggregate,
  id,
  decideGrantMembership,
  async (log, { staffId, clinicId }) => {
    if (staffId !== null) await loadOwned(log, staffAggregate, staffId, clinicId, "staff_member");
  },
);
export const acceptMembership = clinicOperation(membershipAggregate, id, decideAcceptMembership);
export const changePermissions = clinicOperation(membershipAggregate, id, decideChangePermissions);
export const revokeMembership = clinicOperation(membershipAggregate, id, decideRevokeMembership);
