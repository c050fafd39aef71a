import type { Aggregate, Decision } from "../../../shared/domain/aggregate.ts";
import * as appointments from "../../../shared/domain/appointment/appointment.ts";
import * as auditors from "../../../shared/domain/audit/auditor.ts";
import * as customers from "../../../shared/domain/clinic/customer.ts";
import * as portalUsers from "../../../shared/domain/clinic/portal-user.ts";
import * as tickets from "../../../shared/domain/clinic/queue-ticket.ts";
import * as staff from "../../../shared/domain/clinic/staff.ts";
import type { categories } from "../../../shared/domain/events/catalog.ts";
import type { EventOf } from "../../../shared/domain/events/category.ts";
import type { Erasure } from "../../../shared/domain/personal-data/erasure.ts";
import type { PersonalDataCategory, PersonType } from "../../../shared/domain/personal-data/person.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { type CommandContext, type CommandResult, handle } from "../../handling/handle.ts";
import { createClinicContext } from "../operation.ts";

export const categoriesByType: Record<PersonType, readonly PersonalDataCategory[]> = {
  customer: ["contact", "animal", "notes"],
  staff: ["contact"],
  portalUser: ["contact", "notes"],
  auditor: ["contact", "notes"],
  appointment: ["notes"],
  queueTicket: ["notes"],
};

/** Returns true if persons of the type belong to a clinic. */
export function hasClinic(type: PersonType): boolean {
  return type !== "portalUser" && type !== "auditor";
}

type RecordErasure = (
  log: EventLog,
  erasure: Erasure & { id: string; clinicId?: string },
  context: CommandContext,
) => Promise<Pick<CommandResult<unknown>, "events" | "statePosition">>;

/**
 * Creates a command that records an erasure. Unlike other commands, it also works for closed and deleted clinics,
 * because their customers and staff can still request an erasure.
 *
 * @param idName name of the id in the events of the person's stream
 */
function defineErasure<C extends (typeof categories)[number], State, Values>(
  aggregate: Aggregate<C, State>,
  idName: keyof Values & string,
  decide: (values: Values) => Decision<State, EventOf<C>>,
): RecordErasure {
  return async (log, { id, ...erasure }, context) => {
    const { clinicId } = erasure;
    const erasureContext = clinicId === undefined ? context : await createClinicContext(log, clinicId, context);
    return handle(log, aggregate, id, decide({ [idName]: id, ...erasure } as Values), erasureContext);
  };
}

/**
 * Commands that record an erasure, by type of the person. Each throws {@link DomainError} `<object>_not_found` if the
 * person does not exist or belongs to another clinic. The command for an auditor also throws `auditor_not_revoked`.
 */
export const recordErasure: Record<PersonType, RecordErasure> = {
  customer: defineErasure(customers.customerAggregate, "customerId", customers.eraseCustomer),
  staff: defineErasure(staff.staffAggregate, "staffId", staff.eraseStaff),
  portalUser: defineErasure(portalUsers.portalUserAggregate, "userId", portalUsers.erasePortalUser),
  auditor: defineErasure(auditors.auditorAggregate, "auditorId", auditors.eraseAuditor),
  appointment: defineErasure(appointments.appointmentAggregate, "appointmentId", appointments.eraseAppointment),
  queueTicket: defineErasure(tickets.queueTicketAggregate, "ticketId", tickets.eraseTicket),
};
