import type { Aggregate, Decision } from "../../../shared/domain/aggregate.ts";
import * as appointments from "../../../shared/domain/appointment/appointment.ts";
import { appointmentAggregate } from "../../../shared/domain/appointment/appointment.ts";
import * as auditors from "../../../shared/domain/audit/auditor.ts";
import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import * as customers from "../../../shared/domain/clinic/customer.ts";
import { customerAggregate } from "../../../shared/domain/clinic/customer.ts";
import * as portalUsers from "../../../shared/domain/clinic/portal-user.ts";
import { portalUserAggregate } from "../../../shared/domain/clinic/portal-user.ts";
import * as tickets from "../../../shared/domain/clinic/queue-ticket.ts";
import { queueTicketAggregate } from "../../../shared/domain/clinic/queue-ticket.ts";
import * as staff from "../../../shared/domain/clinic/staff.ts";
import { staffAggregate } from "../../../shared/domain/clinic/staff.ts";
import type { categories } from "../../../shared/domain/events/catalog.ts";
import type { EventOf } from "../../../shared/domain/events/category.ts";
import type { Erasure } from "../../../shared/domain/personal-data/erasure.ts";
import type { PersonalDataCategory, PersonType } from "../../../shared/domain/personal-data/person.ts";
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

type RecordErasure<Extra> = (
  log: EventLog,
  erasure: Erasure & { id: string } & Extra,
  context: CommandContext,
) => Promise<Pick<CommandResult<unknown>, "events" | "statePosition">>;

type ClinicErasure = { clinicId: string };

/** @param idName name of the id in the events of the person's stream */
function defineErasure<C extends (typeof categories)[number], State, Values>(
  aggregate: Aggregate<C, State>,
  idName: keyof Values & string,
  decide: (values: Values) => Decision<State, EventOf<C>>,
): RecordErasure<object> {
  return (log, { id, ...erasure }, context) =>
    handle(log, aggregate, id, decide({ [idName]: id, ...erasure } as Values), context);
}

/**
 * Restricts the recording of an erasure to a clinic. Unlike other commands, it also changes closed and deleted clinics,
 * because persons can ask them for an erasure, too.
 */
function ofClinic(record: RecordErasure<object>): RecordErasure<ClinicErasure> {
  return async (log, erasure, context) =>
    record(log, erasure, await createClinicContext(log, erasure.clinicId, context));
}

/**
 * Commands that record an erasure of a clinic's person, by type of the person. Each throws {@link DomainError}
 * `<object>_not_found` if the clinic has no such person.
 */
export const recordErasure: Record<Exclude<PersonType, TypeWithoutClinic>, RecordErasure<ClinicErasure>> = {
  customer: ofClinic(defineErasure(customerAggregate, "customerId", customers.eraseCustomer)),
  staff: ofClinic(defineErasure(staffAggregate, "staffId", staff.eraseStaff)),
  appointment: ofClinic(defineErasure(appointmentAggregate, "appointmentId", appointments.eraseAppointment)),
  queueTicket: ofClinic(defineErasure(queueTicketAggregate, "ticketId", tickets.eraseTicket)),
};

/**
 * Commands that record an erasure of a person without a clinic, by type of the person. The command for an auditor throws
 * {@link DomainError} `auditor_not_found` or `auditor_not_revoked`.
 */
export const recordErasureWithoutClinic = {
  portalUser: defineErasure(portalUserAggregate, "userId", portalUsers.erasePortalUser),
  auditor: defineErasure(auditorAggregate, "auditorId", auditors.eraseAuditor),
};

export function hasClinic(type: PersonType): type is keyof typeof recordErasure {
  return type in recordErasure;
}
