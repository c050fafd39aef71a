import type { QueueTicketEvent } from "../../shared/events/appointment.ts";
import { DomainError } from "../handle.ts";
import type { Clinic } from "./clinic.ts";
import { branchOf } from "./in-clinic.ts";
import { owned } from "./owned.ts";
import type { QueueTicket, QueueTicketIssue, QueueTicketStatus } from "./queue-ticket.ts";
import { registerOnce } from "./register-once.ts";

type Decision = (state: QueueTicket | undefined) => QueueTicketEvent[];
type OfClinic = { clinicId: string; ticketId: string };

export function decideIssueTicket(data: QueueTicketIssue, clinic: Clinic): Decision {
  return (state) => {
    branchOf(clinic, data.branchId);
    return registerOnce(state?.issue, { type: "QueueTicketIssued", data }, "queue_ticket");
  };
}

export const decideCallTicket = move("QueueTicketCalled", "called", ["waiting"]);
export const decideCompleteTicket = move("QueueTicketCompleted", "completed", ["called"]);
export const decideCancelTicket = move("QueueTicketCancelled", "cancelled", ["waiting", "called"]);
export const decideMarkTicketNoShow = move("QueueTicketMarkedNoShow", "no_show", ["waiting", "called"]);

/** A move to where the ticket stands already changes nothing; one from elsewhere than `from` is refused. */
function move(
  type: Exclude<QueueTicketEvent["type"], "QueueTicketIssued">,
  to: QueueTicketStatus,
  from: QueueTicketStatus[],
) {
  return ({ clinicId, ticketId }: OfClinic): Decision =>
    (state) => {
      const { status } = owned(state, clinicId, "queue_ticket");
      if (status === to) return [];
      if (from.includes(status)) return [{ type, data: { ticketId } }];
      throw new DomainError("illegal_ticket_move", `a ticket that is ${status} cannot become ${to}`);
    };
}
