import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { type QueueTicketEvent, queueTicketStreams } from "../events/appointment.ts";
import type { DataOf } from "../events/category.ts";
import type { Erasure } from "../personal-data/erasure.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";
import { type Clinic, requireBranch } from "./clinic.ts";

export type QueueTicketIssue = DataOf<QueueTicketEvent, "QueueTicketIssued">;
export type QueueTicketStatus = "waiting" | "called" | "completed" | "cancelled" | "no_show";

/** State of a ticket in the front-desk queue. */
export interface QueueTicket {
  id: string;
  clinicId: string;
  status: QueueTicketStatus;
  issue: QueueTicketIssue;
  /** True if the data of the ticket itself was erased. False if the data of its customer was erased. */
  isErased: boolean;
}

/** Status of a queue ticket after each type of event. */
const statusAfterEvent = {
  QueueTicketCalled: "called",
  QueueTicketCompleted: "completed",
  QueueTicketCancelled: "cancelled",
  QueueTicketMarkedNoShow: "no_show",
} as const;

export const queueTicketAggregate: Aggregate<typeof queueTicketStreams, QueueTicket> = {
  category: queueTicketStreams,
  evolve(state, event) {
    if (event.type === "QueueTicketDataErased")
      return state && { ...state, issue: { ...state.issue, notes: null }, isErased: true };
    if (event.type !== "QueueTicketIssued") return state && { ...state, status: statusAfterEvent[event.type] };
    const { ticketId: id, clinicId } = event.data;
    return { id, clinicId, status: "waiting", issue: event.data, isErased: false };
  },
  personOf: ({ id, issue: { customerId } }) =>
    customerId === null ? { type: "queueTicket", id } : { type: "customer", id: customerId },
};

type QueueTicketDecision = Decision<QueueTicket, QueueTicketEvent>;

/** Identifies a queue ticket of a clinic. */
type QueueTicketRef = { clinicId: string; ticketId: string };

export function decideIssueTicket(data: QueueTicketIssue, clinic: Clinic): QueueTicketDecision {
  return (state) => {
    requireBranch(clinic, data.branchId);
    return registerIdempotently(state?.issue, { type: "QueueTicketIssued", data }, "queue_ticket");
  };
}

export const decideCallTicket = createTransitionDecider("QueueTicketCalled", ["waiting"]);
export const decideCompleteTicket = createTransitionDecider("QueueTicketCompleted", ["called"]);
export const decideCancelTicket = createTransitionDecider("QueueTicketCancelled", ["waiting", "called"]);
export const decideMarkTicketNoShow = createTransitionDecider("QueueTicketMarkedNoShow", ["waiting", "called"]);

/**
 * Creates the decider of a status transition. A transition to the current status changes nothing. A transition from a
 * status that is not permitted is refused.
 */
function createTransitionDecider(type: keyof typeof statusAfterEvent, permittedStatuses: QueueTicketStatus[]) {
  const newStatus = statusAfterEvent[type];
  return ({ clinicId, ticketId }: QueueTicketRef): QueueTicketDecision =>
    (state) => {
      const { status } = requireOwnedBy(clinicId, state, "queue_ticket");
      if (status === newStatus) return [];
      if (permittedStatuses.includes(status)) return [{ type, data: { ticketId } }];
      throw new DomainError("illegal_ticket_move", `a ticket that is ${status} cannot become ${newStatus}`);
    };
}

/**
 * Erases the data of a ticket without a customer. Repeating the erasure changes nothing.
 *
 * @throws {DomainError} `ticket_has_customer`
 */
export function decideEraseTicket(command: QueueTicketRef & Erasure): QueueTicketDecision {
  return (state) => {
    const { clinicId, ticketId, ...erasure } = command;
    const { issue, isErased } = requireOwnedBy(clinicId, state, "queue_ticket");
    const { customerId } = issue;
    if (customerId !== null) {
      throw new DomainError("ticket_has_customer", `the ticket's data belongs to customer ${customerId}`);
    }
    return isErased ? [] : [{ type: "QueueTicketDataErased", data: { ticketId, ...erasure } }];
  };
}
