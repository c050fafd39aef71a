import { getClinicContext, listAuthorizedBranches, listAuthorizedClinics } from "./clinics.ts";
import { listCustomerProjections, listServices, listStaff } from "./directory.ts";
import type { PortalOperation } from "./operation.ts";
import { getAvailability, getQueue, listAppointments } from "./schedule.ts";

export function createPortalOperations(settings: { operatorName: string }): readonly PortalOperation[] {
  return [
    getClinicContext,
    listAuthorizedClinics,
    listAuthorizedBranches,
    listServices,
    listStaff,
    listCustomerProjections(settings.operatorName),
    listAppointments,
    getAvailability,
    getQueue,
  ];
}
