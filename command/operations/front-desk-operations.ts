import { foldAppointment } from "../../shared/domain/appointment/appointment.ts";
import { animalAggregate } from "../../shared/domain/clinic/animal.ts";
import {
  decidePlaceHold,
  decideReleaseHold,
  type HoldPlacement,
  holdAggregate,
} from "../../shared/domain/clinic/hold.ts";
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
import { type AppointmentEvent, appointmentCategory } from "../../shared/domain/events/appointment.ts";
import { streamName } from "../../shared/domain/events/category.ts";
import { requireOwnedBy } from "../../shared/domain/preconditions.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { clinicOperation, loadOwnedBy } from "./operation.ts";

const holdIdOf = ({ holdId }: { holdId: string }) => holdId;

/** The resource of a hold must be active and belong to the same branch. */
export const placeHold = clinicOperation(
  holdAggregate,
  holdIdOf,
  decidePlaceHold,
  async (log, { resourceId, clinicId, branchId }: HoldPlacement) => {
    if (resourceId === null) return;
    const resource = await loadOwnedBy(log, resourceAggregate, resourceId, clinicId, "resource");
    if (resource.branchId !== branchId)
      throw new DomainError("resource_not_found", "the branch has no such resource");
    if (!resource.active) throw new DomainError("resource_retired", "the resource is retired");
  },
);
export const releaseHold = clinicOperation(holdAggregate, holdIdOf, decideReleaseHold);

const ticketIdOf = ({ ticketId }: { ticketId: string }) => ticketId;

/** The appointment and the animal of a ticket must belong to the same clinic. */
export const issueTicket = clinicOperation(
  queueTicketAggregate,
  ticketIdOf,
  decideIssueTicket,
  async (log, { appointmentId, animalId, clinicId }: QueueTicketIssue) => {
    if (animalId !== null) await loadOwnedBy(log, animalAggregate, animalId, clinicId, "animal");
    if (appointmentId !== null) await requireAppointment(log, appointmentId, clinicId);
  },
);
export const callTicket = clinicOperation(queueTicketAggregate, ticketIdOf, decideCallTicket);
export const completeTicket = clinicOperation(queueTicketAggregate, ticketIdOf, decideCompleteTicket);
export const cancelTicket = clinicOperation(queueTicketAggregate, ticketIdOf, decideCancelTicket);
export const markTicketNoShow = clinicOperation(queueTicketAggregate, ticketIdOf, decideMarkTicketNoShow);

async function requireAppointment(log: EventLog, appointmentId: string, clinicId: string): Promise<void> {
  const events = await log.read<AppointmentEvent>(streamName(appointmentCategory, appointmentId));
  requireOwnedBy(clinicId, foldAppointment(events), "appointment");
}
