import { appointmentAggregate } from "../../shared/domain/appointment/appointment.ts";
import { animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { customerAggregate } from "../../shared/domain/clinic/customer.ts";
import * as holds from "../../shared/domain/clinic/hold.ts";
import * as tickets from "../../shared/domain/clinic/queue-ticket.ts";
import { resourceAggregate } from "../../shared/domain/clinic/resource.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { holdStreams, queueTicketStreams } from "../../shared/domain/events/appointment.ts";
import { overbook } from "./appointment-operations.ts";
import { defineCommand, defineTransitions } from "./define-command.ts";

const { QueueTicketIssued, QueueTicketCalled } = queueTicketStreams.events;
const permission = "manage_schedule";

/** Places a hold. If the hold names a resource, the resource must be active and belong to the hold's branch. */
export const placeHold = defineCommand("hold place", holds.holdAggregate, {
  summary: "Reserves a time span before an appointment exists.",
  input: holdStreams.events.HoldPlaced.omit({ reservationId: true }).extend({ overbook }),
  creates: "holdId",
  permission,
  overbooks: (values) => values.overbook,
  async refers({ resourceId, branchId }, { require }) {
    if (resourceId === null) return;
    const resource = await require(resourceAggregate, resourceId);
    if (resource.branchId !== branchId) throw new DomainError("resource_not_found", "the branch has no such resource");
    if (!resource.active) throw new DomainError("resource_retired", "the resource is retired");
  },
  decide: ({ overbook: _, ...hold }, clinic, now) => holds.placeHold(hold, clinic, now),
  example: { expiresAt: "2027-02-28T18:00:00+01:00" },
});

export const releaseHold = defineCommand("hold release", holds.holdAggregate, {
  summary: "Releases a hold.",
  input: holdStreams.events.HoldReleased,
  permission,
  decide: holds.releaseHold,
});

/**
 * Issues a ticket. If the ticket names an appointment or animal, it must belong to the ticket's clinic. The ticket's
 * customer is the animal's owner, or else the appointment's customer. The customer must not be erased.
 */
export const issueTicket = defineCommand("ticket issue", tickets.queueTicketAggregate, {
  summary: "Issues a ticket for the front-desk queue.",
  input: QueueTicketIssued.omit({ customerId: true }).extend({
    arrivalType: QueueTicketIssued.shape.arrivalType.default("appointment"),
    priority: QueueTicketIssued.shape.priority.default("normal"),
  }),
  creates: "ticketId",
  permission,
  async refers({ animalId, appointmentId }, { require }) {
    const animal = animalId === null ? null : await require(animalAggregate, animalId);
    const appointment = appointmentId === null ? null : await require(appointmentAggregate, appointmentId);
    const customerId = animal?.customerId ?? appointment?.customerId ?? null;
    if (customerId !== null) await require(customerAggregate, customerId);
    return customerId;
  },
  decide: (ticket, clinic, _, customerId) => tickets.issueTicket({ ...ticket, customerId }, clinic),
  example: { ticketNumber: "A017" },
});

export const [callTicket, completeTicket, cancelTicket, markTicketNoShow] = defineTransitions(
  "ticket",
  tickets.queueTicketAggregate,
  { input: QueueTicketCalled, permission },
  [
    ["call", "Calls a waiting ticket.", tickets.callTicket],
    ["complete", "Completes a called ticket.", tickets.completeTicket],
    ["cancel", "Cancels a ticket.", tickets.cancelTicket],
    ["no-show", "Records that nobody came when the ticket was called.", tickets.markTicketNoShow],
  ],
);
