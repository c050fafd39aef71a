import { createHash } from "node:crypto";
import { type Appointment, appointmentAggregate } from "../../shared/domain/appointment/appointment.ts";
import { type AppointmentImport, decideImport, occurredAt } from "../../shared/domain/appointment/import.ts";
import { animalAggregate } from "../../shared/domain/clinic/animal.ts";
import { refuseSandbox, whileOpen } from "../../shared/domain/clinic/clinic.ts";
import { customerAggregate } from "../../shared/domain/clinic/customer.ts";
import { resourceAggregate } from "../../shared/domain/clinic/resource.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, type Handled, handle, load } from "../handling/handle.ts";
import { inClinic } from "./in-clinic.ts";

/**
 * Takes an appointment over from another system with its status, as history: its event occurred when the appointment came
 * to that status, and partners are not notified.
 *
 * @throws {DomainError} `clinic_not_found`, `clinic_closed`, `clinic_is_a_sandbox`, and what {@link decideImport} throws
 */
export async function importAppointment(
  log: EventLog,
  input: Omit<AppointmentImport, "requestHash">,
  context: CommandContext,
): Promise<Handled<Appointment>> {
  const { appointmentId, clinicId, animalId, customerId, resourceIds } = input;
  const { clinic, context: ofClinic } = await inClinic(log, clinicId, context);
  refuseSandbox(clinic);
  const { now } = context;
  const [animal, customer, ...resources] = await Promise.all([
    animalId === null ? undefined : load(log, animalAggregate, animalId).then(({ state }) => state),
    customerId === null ? undefined : load(log, customerAggregate, customerId).then(({ state }) => state),
    ...resourceIds.map(async (id) => (await load(log, resourceAggregate, id)).state),
  ]);
  const asked = { ...input, requestHash: hashOf(input) };
  const decide = whileOpen(clinic, decideImport(asked, { clinic, animal, customer, resources, now }));
  const happened = { ...ofClinic, now: occurredAt(asked, now) };
  return handle(log, appointmentAggregate, appointmentId, decide, happened);
}

/** Follows from what is imported, whatever the order of its members. */
function hashOf(input: Omit<AppointmentImport, "requestHash">): string {
  const members = Object.entries(input).sort(([a], [b]) => (a < b ? -1 : 1));
  return createHash("sha256").update(JSON.stringify(members)).digest("hex");
}
