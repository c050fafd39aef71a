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
  type QueueTicket,
  type QueueTicketIssue,
  queueTicketAggregate,
} from "../../shared/domain/clinic/queue-ticket.ts";
import { resourceAggregate } from "../../shared/domain/clinic/resource.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { requireNotErased } from "../../shared/domain/personal-data/erasure.ts";
import { loadAggregate } from "../handling/handle.ts";
import { defineClinicOperation, loadClinicObject, type Operation } from "./operation.ts";

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
export const issueTicket: Operation<Omit<QueueTicketIssue, "customerId">, QueueTicket> = async (
  log,
  command,
  context,
) => {
  const { animalId, appointmentId } = command;
  const animal = animalId === null ? undefined : (await loadAggregate(log, animalAggregate, animalId)).state;
  const appointment =
    appointmentId === null ? undefined : (await loadAggregate(log, appointmentAggregate, appointmentId)).state;
  const customerId = animal?.customerId ?? appointment?.customerId ?? null;
  return issueTicketOfCustomer(log, { ...command, customerId }, context);
};

const issueTicketOfCustomer = defineClinicOperation(
  queueTicketAggregate,
  "ticketId",
  decideIssueTicket,
  async (log, { appointmentId, animalId, customerId, clinicId }) => {
    if (animalId !== null) await loadClinicObject(log, animalAggregate, animalId, clinicId, "animal");
    if (appointmentId !== null)
      await loadClinicObject(log, appointmentAggregate, appointmentId, clinicId, "appointment");
    if (customerId !== null)
      requireNotErased(await loadClinicObject(log, customerAggregate, customerId, clinicId, "customer"), "customer");
  },
);
export const callTicket = defineClinicOperation(queueTicketAggregate, "ticketId", decideCallTicket);
export const completeTicket = defineClinicOperation(queueTicketAggregate, "ticketId", decideCompleteTicket);
export const cancelTicket = defineClinicOperation(queueTicketAggregate, "ticketId", decideCancelTicket);
export const markTicketNoShow = defineClinicOperation(queueTicketAggregate, "ticketId", decideMarkTicketNoShow);
