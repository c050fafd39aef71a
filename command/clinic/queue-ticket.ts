import { type QueueTicketEvent, queueTicketCategory } from "../../shared/events/appointment.ts";
import type { Aggregate } from "../handle.ts";
import type { DataOf } from "./data-of.ts";

export type QueueTicketIssue = DataOf<QueueTicketEvent, "QueueTicketIssued">;
export type QueueTicketStatus = "waiting" | "called" | "completed" | "cancelled" | "no_show";

/** A place in the front desk's queue. */
export interface QueueTicket {
  id: string;
  clinicId: string;
  status: QueueTicketStatus;
  issue: QueueTicketIssue;
}

/** The status that each event of a ticket's life leads to. */
const statusAfter = {
  QueueTicketCalled: "called",
  QueueTicketCompleted: "completed",
  QueueTicketCancelled: "cancelled",
  QueueTicketMarkedNoShow: "no_show",
} as const;

export const queueTicketAggregate: Aggregate<typeof queueTicketCategory, QueueTicket> = {
  category: queueTicketCategory,
  evolve(state, event) {
    if (event.type !== "QueueTicketIssued") return state && { ...state, status: statusAfter[event.type] };
    const { ticketId: id, clinicId } = event.data;
    return { id, clinicId, status: "waiting", issue: event.data };
  },
};
