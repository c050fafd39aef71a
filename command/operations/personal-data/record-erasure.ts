import type { Aggregate, Decision } from "../../../shared/domain/aggregate.ts";
import { appointmentAggregate, decideEraseAppointment } from "../../../shared/domain/appointment/appointment.ts";
import { auditorAggregate, decideEraseAuditor } from "../../../shared/domain/audit/auditor.ts";
import { customerAggregate, decideEraseCustomer } from "../../../shared/domain/clinic/customer.ts";
import { decideErasePortalUser, portalUserAggregate } from "../../../shared/domain/clinic/portal-user.ts";
import { decideEraseTicket, queueTicketAggregate } from "../../../shared/domain/clinic/queue-ticket.ts";
import { decideEraseStaff, staffAggregate } from "../../../shared/domain/clinic/staff.ts";
import type { categories } from "../../../shared/domain/events/catalog.ts";
import type { EventOf } from "../../../shared/domain/events/category.ts";
import type { Erasure } from "../../../shared/domain/personal-data/erasure.ts";
import type { PersonalDataCategory, PersonType } from "../../../shared/domain/personal-data/person.ts";
import { requireOwnedBy } from "../../../shared/domain/preconditions.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { type CommandContext, type CommandResult, handle } from "../../handling/handle.ts";
import { createClinicContext } from "../operation.ts";

/** Types of persons who belong to no clinic. */
export type TypeWithoutClinic = "portalUser" | "auditor";

export const categoriesByType: Record<PersonType, readonly PersonalDataCategory[]> = {
  customer: ["contact", "animal", "notes"],
  staff: ["contact"],
  portalUser: ["contact", "notes"],
  auditor: ["contact", "notes"],
  appointment: ["notes"],
  queueTicket: ["notes"],
};

interface ClinicErasure extends Erasure {
  clinicId: string;
  id: string;
}

type RecordErasure = (
  log: EventLog,
  erasure: ClinicErasure,
  context: CommandContext,
) => Promise<Pick<CommandResult<unknown>, "events" | "statePosition">>;

/**
 * Defines the command that records an erasure in the person's stream. Unlike other commands, it also changes closed and
 * deleted clinics, because persons can ask them for an erasure, too.
 */
function defineErasure<C extends (typeof categories)[number], State>(
  aggregate: Aggregate<C, State>,
  decide: (erasure: ClinicErasure) => Decision<State, EventOf<C>>,
): RecordErasure {
  return async (log, erasure, context) => {
    const clinicContext = await createClinicContext(log, erasure.clinicId, context);
    return handle(log, aggregate, erasure.id, decide(erasure), clinicContext);
  };
}

/**
 * Commands that record an erasure of a clinic's person, by type of the person. Each throws {@link DomainError}
 * `<object>_not_found` if the clinic has no such person.
 */
export const recordErasure: Record<Exclude<PersonType, TypeWithoutClinic>, RecordErasure> = {
  customer: defineErasure(customerAggregate, ({ id: customerId, ...erasure }) =>
    decideEraseCustomer({ customerId, ...erasure }),
  ),
  staff: defineErasure(staffAggregate, ({ id: staffId, ...erasure }) => decideEraseStaff({ staffId, ...erasure })),
  appointment: defineErasure(appointmentAggregate, ({ id: _, clinicId, ...erasure }) => (state) => {
    requireOwnedBy(clinicId, state, "appointment");
    return decideEraseAppointment(erasure)(state);
  }),
  queueTicket: defineErasure(queueTicketAggregate, ({ id: ticketId, ...erasure }) =>
    decideEraseTicket({ ticketId, ...erasure }),
  ),
};

/**
 * Commands that record an erasure of a person without a clinic, by type of the person. The command for an auditor throws
 * {@link DomainError} `auditor_not_found` or `auditor_not_revoked`.
 */
export const recordErasureWithoutClinic = {
  portalUser: (log: EventLog, { id: userId, ...erasure }: Erasure & { id: string }, context: CommandContext) =>
    handle(log, portalUserAggregate, userId, decideErasePortalUser({ userId, ...erasure }), context),
  auditor: (log: EventLog, { id, ...erasure }: Erasure & { id: string }, context: CommandContext) =>
    handle(log, auditorAggregate, id, decideEraseAuditor(erasure), context),
};

export function hasClinic(type: PersonType): type is keyof typeof recordErasure {
  return type in recordErasure;
}
