import { appointmentAggregate } from "../../shared/domain/appointment/appointment.ts";
import { animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { decidePlaceHold, decideReleaseHold, holdAggregate } from "../../shared/domain/clinic/hold.ts";
import {
  decideCallTicket,
  decideCancelTicket,
  decideCompleteTicket,
  decideIssueTicket,
  decideMarkTicketNoShow,
  type QueueTicketIssue,
  queueTicketAggregate,
} from "../../shared/domain/clinic/queue-ticket.ts";
import { resourceAggregate } from "../../shared/domain/clinic/resource.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { requireNotErased } from "../../shared/domain/personal-data/erasure.ts";
import { defineClinicOperation, loadClinicObject } from "./operation.ts";

/** Places a hold. A resource that the hold names must be active and belong to the branch of the hold. */
export const placeHold = defineClinicOperation(
  holdAggregate,
  "holdId",
  decidePlaceHold,
  async (log, { resourceId, clinicId, branchId }) => {
    if (resourceId === null) return;
    const resource = await loadClinicObject(log, resourceAggregate, resourceId, clinicId, "resource");
    if (resource.branchId !== branchId) throw new DomainError("resource_not_found", "the branch has no such resource");
    if (!resource.active) throw new DomainError("resource_retired", "the resource is retired");
  },
);
export const releaseHold = defineClinicOperation(holdAggregate, "holdId", decideReleaseHold);

/**
 * Issues a ticket. An appointment and an animal that the ticket names must belong to the ticket's clinic. The ticket's
 * customer is the animal's owner, or else the appointment's customer, who must not be erased.
 */
export const issueTicket = defineClinicOperation(
  queueTicketAggregate,
  "ticketId",
  (issue: Omit<QueueTicketIssue, "customerId">, clinic, _, customerId: string | null) =>
    decideIssueTicket({ ...issue, customerId }, clinic),
  async (log, { animalId, appointmentId, clinicId }) => {
    const animal =
      animalId === null ? null : await loadClinicObject(log, animalAggregate, animalId, clinicId, "animal");
    const appointment =
      appointmentId === null
        ? null
        : await loadClinicObject(log, appointmentAggregate, appointmentId, clinicId, "appointment");
    const customerId = animal?.customerId ?? appointment?.customerId ?? null;
    if (customerId !== null)
      requireNotErased(await loadClinicObject(log, customerAggregate, customerId, clinicId, "customer"), "customer");
    return customerId;
  },
);
export const callTicket = defineClinicOperation(queueTicketAggregate, "ticketId", decideCallTicket);
export const completeTicket = defineClinicOperation(queueTicketAggregate, "ticketId", decideCompleteTicket);
export const cancelTicket = defineClinicOperation(queueTicketAggregate, "ticketId", decideCancelTicket);
export const markTicketNoShow = defineClinicOperation(queueTicketAggregate, "ticketId", decideMarkTicketNoShow);
