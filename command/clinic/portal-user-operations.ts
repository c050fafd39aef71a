import { clinicOperation } from "./clinic-operation.ts";
import { type ClinicSelection, decideSelectClinic, portalUserAggregate } from "./portal-user.ts";

export const selectClinic = clinicOperation(
  portalUserAggregate,
  ({ userId }: ClinicSelection) => userId,
  decideSelectClinic,
);
