import {
  decideDeactivateStaff,
  decideHireStaff,
  decideReactivateStaff,
  staffAggregate,
} from "../../shared/domain/clinic/staff.ts";
import { clinicOperation } from "./clinic-operation.ts";

const id = ({ staffId }: { staffId: string }) => staffId;

export const hireStaff = clinicOperation(staffAggregate, id, decideHireStaff);
export const deactivateStaff = clinicOperation(staffAggregate, id, decideDeactivateStaff);
export const reactivateStaff = clinicOperation(staffAggregate, id, decideReactivateStaff);
