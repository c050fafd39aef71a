import { listAppointments } from "./appointments.ts";
import { getAvailability } from "./availability.ts";
import { getClinicContext, listAuthorizedBranches, listAuthorizedClinics } from "./clinics.ts";
import { listCustomerProjections, listServices, listStaff } from "./directory.ts";
import type { PortalOperation } from "./operation.ts";
import { getQueue } from "./queue.ts";

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
