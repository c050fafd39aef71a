import { clinicOperation } from "./clinic-operation.ts";
import { decideDeactivateStaff, decideHireStaff, decideReactivateStaff, staffAggregate } from "./staff.ts";

const id = ({ staffId }: { staffId: string }) => staffId;

export const hireStaff = clinicOperation(staffAggregate, id, decideHireStaff);
export const deactivateStaff = clinicOperation(staffAggregate, id, decideDeactivateStaff);
export const reactivateStaff = clinicOperation(staffAggregate, id, decideReactivateStaff);
