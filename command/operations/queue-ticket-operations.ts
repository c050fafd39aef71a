import { foldAppointment } from "../../shared/domain/appointment/appointment.ts";
import { animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { owned } from "../../shared/domain/clinic/owned.ts";
import {
  decideCallTicket,
  decideCancelTicket,
  decideCompleteTicket,
  decideIssueTicket,
  decideMarkTicketNoShow,
  type QueueTicketIssue,
  queueTicketAggregate,
} from "../../shared/domain/clinic/queue-ticket.ts";
import { type AppointmentEvent, appointmentCategory } from "../../shared/domain/events/appointment.ts";
import { streamName } from "../../shared/domain/events/category.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { clinicOperation } from "./clinic-operation.ts";
import { loadOwned } from "./in-clinic.ts";

const id = ({ ticketId }: { ticketId: string }) => ticketId;

/** A ticket may name an appointment and an animal, each of the same clinic. */
export const issueTicket = clinicOperation(
  queueTicketAggregate,
  id,
  decideIssueTicket,
  async (log, { appointmentId, animalId, clinicId }: QueueTicketIssue) => {
    if (animalId !== null) await loadOwned(log, animalAggregate, animalId, clinicId, "animal");
    if (appointmentId !== null) await requireAppointment(log, appointmentId, clinicId);
  },
);
export const callTicket = clinicOperation(queueTicketAggregate, id, decideCallTicket);
export const completeTicket = clinicOperation(queueTicketAggregate, id, decideCompleteTicket);
export const cancelTicket = clinicOperation(queueTicketAggregate, id, decideCancelTicket);
export const markTicketNoShow = clinicOperation(queueTicketAggregate, id, decideMarkTicketNoShow);

async function requireAppointment(log: EventLog, appointmentId: string, clinicId: string): Promise<void> {
  const events = await log.read<AppointmentEvent>(streamName(appointmentCategory, appointmentId));
  owned(foldAppointment(events), clinicId, "appointment");
}
