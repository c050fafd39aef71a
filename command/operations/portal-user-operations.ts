import {
  type ClinicSelection,
  decideSelectClinic,
  portalUserAggregate,
} from "../../shared/domain/clinic/portal-user.ts";
import { clinicOperation } from "./clinic-operation.ts";

export const selectClinic = clinicOperation(
  portalUserAggregate,
  ({ userId }: ClinicSelection) => userId,
  decideSelectClinic,
);
