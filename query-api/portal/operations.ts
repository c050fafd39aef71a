import { getAvailability } from "./get-availability.ts";
import { getClinicContext } from "./get-clinic-context.ts";
import { getQueue } from "./get-queue.ts";
import { listAppointments } from "./list-appointments.ts";
import { listAuthorizedBranches } from "./list-authorized-branches.ts";
import { listAuthorizedClinics } from "./list-authorized-clinics.ts";
import { listCustomerProjections } from "./list-customer-projections.ts";
import { listServices } from "./list-services.ts";
import { listStaff } from "./list-staff.ts";
import type { PortalOperation } from "./operation.ts";

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
