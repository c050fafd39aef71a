import { type Aggregate, createClinicRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { type QueueTicketEvent, queueTicketStreams } from "../events/appointment.ts";
import type { DataOf } from "../events/category.ts";
import { registerIdempotently } from "../preconditions.ts";
import { type Clinic, requireBranch } from "./clinic.ts";

type QueueTicketIssue = DataOf<QueueTicketEvent, "QueueTicketIssued">;
export type QueueTicketStatus = "waiting" | "called" | "completed" | "cancelled" | "no_show";

/** State of a ticket in the front-desk queue. */
export interface QueueTicket {
  id: string;
  clinicId: string;
  status: QueueTicketStatus;
  issue: QueueTicketIssue;
  /** True after an erasure of this ticket, but not after an erasure of its customer. */
  isErased: boolean;
}

export const queueTicketAggregate: Aggregate<typeof queueTicketStreams, QueueTicket> = defineAggregate(
  queueTicketStreams,
  {
    QueueTicketIssued(issue) {
      return { id: issue.ticketId, clinicId: issue.clinicId, status: "waiting", issue, isErased: false };
    },
  },
  {
    QueueTicketCalled: () => ({ status: "called" }),
    QueueTicketCompleted: () => ({ status: "completed" }),
    QueueTicketCancelled: () => ({ status: "cancelled" }),
    QueueTicketMarkedNoShow: () => ({ status: "no_show" }),
    QueueTicketDataErased: (_, { issue }) => ({ issue: { ...issue, notes: null }, isErased: true }),
  },
  {
    personOf: ({ id, issue: { customerId } }) =>
      customerId === null ? { type: "queueTicket", id } : { type: "customer", id: customerId },
  },
);

export function issueTicket(data: QueueTicketIssue, clinic: Clinic): Decision<QueueTicket, QueueTicketEvent> {
  return (state) => {
    requireBranch(clinic, data.branchId);
    return registerIdempotently(state?.issue, { type: "QueueTicketIssued", data }, "queue_ticket");
  };
}

const recordIf = createClinicRecorder(queueTicketAggregate, "queue_ticket");

/**
 * Creates a check of a status change. The check returns false if the ticket already has the new status. It throws
 * `illegal_ticket_move` unless the current status is permitted.
 */
const changesTo =
  (newStatus: QueueTicketStatus, ...permittedStatuses: QueueTicketStatus[]) =>
  ({ status }: QueueTicket) => {
    if (status === newStatus) return false;
    if (permittedStatuses.includes(status)) return true;
    throw new DomainError("illegal_ticket_move", `a ticket that is ${status} cannot become ${newStatus}`);
  };

export const callTicket = recordIf("QueueTicketCalled", changesTo("called", "waiting"));
export const completeTicket = recordIf("QueueTicketCompleted", changesTo("completed", "called"));
export const cancelTicket = recordIf("QueueTicketCancelled", changesTo("cancelled", "waiting", "called"));
export const markTicketNoShow = recordIf("QueueTicketMarkedNoShow", changesTo("no_show", "waiting", "called"));

/**
 * Erases the data of a ticket without a customer. Repeating the erasure changes nothing.
 *
 * @throws {DomainError} `ticket_has_customer`
 */
export const eraseTicket = recordIf("QueueTicketDataErased", ({ issue: { customerId }, isErased }) => {
  if (customerId === null) return !isErased;
  throw new DomainError("ticket_has_customer", `the ticket's data belongs to customer ${customerId}`);
});
