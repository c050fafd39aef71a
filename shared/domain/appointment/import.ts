import type { Decision } from "../aggregate.ts";
import type { Animal } from "../clinic/animal.ts";
import type { Clinic } from "../clinic/clinic.ts";
import type { Customer } from "../clinic/customer.ts";
import type { Resource } from "../clinic/resource.ts";
import { DomainError, type ErrorDetail } from "../domain-error.ts";
import { type AppointmentEvent, MAX_ALLOCATION_MINUTES } from "../events/appointment.ts";
import type { DataOf } from "../events/category.ts";
import { deriveAssignmentId } from "../events/ids.ts";
import { isErased } from "../personal-data/erasure.ts";
import { MINUTE_MS } from "../time/local-time.ts";
import { type Instant, toInstant } from "../time/rfc3339.ts";
import { type Appointment, FINAL_STATUSES, getEnd, InvalidAppointmentError } from "./appointment.ts";
import { isRepeated, OWNER_ERASED } from "./request.ts";

type ImportedData = DataOf<AppointmentEvent, "AppointmentImported">;

/** An appointment to import from another system. */
export interface AppointmentImport extends ImportedData {
  /** Resources that the appointment occupies from its start. */
  resourceIds: string[];
  /** End of the allocations; null or absent: the end of the appointment. */
  resourcesUntil?: Instant | null;
}

/**
 * Current data that an import is checked against. A referenced object may belong to another clinic. An object that does
 * not exist is undefined.
 */
interface ImportContext {
  clinic: Clinic;
  animal: Animal | undefined;
  /** Customer that the import names, or else the owner of the animal. */
  customer: Customer | undefined;
  /** Resources in the order of `resourceIds`. */
  resources: (Resource | undefined)[];
  /** Time of the import. Milliseconds since 1970. */
  now: number;
}

/**
 * Imports an appointment and its status from another system. A past appointment must have a final status. A future
 * appointment must have the status requested, confirmed or cancelled. Repeating an import changes nothing.
 *
 * @throws {InvalidAppointmentError}
 * @throws {DomainError} `appointment_exists` if the id belongs to another appointment
 */
export function importAppointment(
  { resourceIds, resourcesUntil, ...appointment }: AppointmentImport,
  context: ImportContext,
): Decision<Appointment, AppointmentEvent> {
  return (state) => {
    if (state && isRepeated(state, appointment)) return [];
    if (state) throw new DomainError("appointment_exists", "the id already belongs to another appointment");
    const details = [
      ...findInvalidReferences({ resourceIds, ...appointment }, context),
      ...findInvalidFields(appointment, resourceIds, context.now),
      ...findInvalidEnd(appointment, resourcesUntil ?? null),
    ];
    if (details.length > 0) throw new InvalidAppointmentError(details);
    const customerId = appointment.customerId ?? context.animal?.customerId ?? null;
    const importedEvent = { type: "AppointmentImported" as const, data: { ...appointment, customerId } };
    const allocationEnd = resourcesUntil ?? getEnd(appointment);
    return [importedEvent, ...resourceIds.map((id) => createAllocationEvent(appointment, id, allocationEnd))];
  };
}

/**
 * Returns the time at which an imported appointment reached its status. If that time is unknown, it is estimated from
 * the status:
 *
 * - requested or confirmed: time of the request, or `now` if the request's time is unknown
 * - cancelled: start of the appointment, but not before the request
 * - completed or no-show: end of the appointment, but not before the request
 *
 * @param now current time and upper bound of the result, in milliseconds since 1970
 * @returns milliseconds since 1970
 */
export function deriveOccurredAt(
  {
    status,
    statusAt,
    requestedAt,
    scheduledAt,
    durationMinutes,
  }: Pick<ImportedData, "status" | "statusAt" | "requestedAt" | "scheduledAt" | "durationMinutes">,
  now: number,
): number {
  if (statusAt !== null) return Date.parse(statusAt);
  const requestedTime = requestedAt === null ? undefined : Date.parse(requestedAt);
  if (status === "requested" || status === "confirmed") return requestedTime ?? now;
  const endedAt = Date.parse(scheduledAt) + (status === "cancelled" ? 0 : durationMinutes * 60_000);
  return Math.min(now, Math.max(endedAt, requestedTime ?? endedAt));
}

/** Finds references to missing, erased or retired objects. Reports an object of another clinic as missing. */
function findInvalidReferences(appointment: AppointmentImport, context: ImportContext): ErrorDetail[] {
  const { clinic, animal, customer, resources, now } = context;
  const details: ErrorDetail[] = [];
  if (!clinic.branches.some(({ id }) => id === appointment.branchId))
    details.push({ path: "branchId", message: "is not a branch of the clinic" });
  if (appointment.animalId !== null && animal?.clinicId !== clinic.id)
    details.push({ path: "animalId", message: "is not an animal of the clinic" });
  if (appointment.customerId !== null && customer?.clinicId !== clinic.id)
    details.push({ path: "customerId", message: "is not a customer of the clinic" });
  else if (customer && isErased(customer))
    details.push(
      appointment.customerId === null
        ? { path: "animalId", message: OWNER_ERASED }
        : { path: "customerId", message: "is a customer whose personal data was erased" },
    );
  const isFuture = Date.parse(appointment.scheduledAt) > now;
  resources.forEach((resource, index) => {
    const belongsToBranch = resource?.clinicId === clinic.id && resource.branchId === appointment.branchId;
    if (!belongsToBranch) details.push({ path: `resourceIds.${index}`, message: "is not a resource of the branch" });
    else if (isFuture && !resource.active)
      details.push({ path: `resourceIds.${index}`, message: "is a retired resource" });
  });
  return details;
}

function findInvalidFields(
  { status, scheduledAt, requestedAt, statusAt }: ImportedData,
  resourceIds: string[],
  now: number,
): ErrorDetail[] {
  const details: ErrorDetail[] = [];
  const isFuture = Date.parse(scheduledAt) > now;
  const permittedStatuses = isFuture ? FUTURE_STATUSES : FINAL_STATUSES;
  if (!permittedStatuses.includes(status)) {
    const timePhrase = isFuture ? "in the future" : "in the past";
    details.push({
      path: "status",
      message: `must be one of ${permittedStatuses.join(", ")} for an appointment ${timePhrase}`,
    });
  }
  const nowInstant = toInstant(now);
  if (requestedAt !== null && requestedAt > (statusAt ?? nowInstant))
    details.push({ path: "requestedAt", message: statusAt ? "must not be after statusAt" : PAST_TIME_RULE });
  if (statusAt !== null && statusAt > nowInstant) details.push({ path: "statusAt", message: PAST_TIME_RULE });
  const isReleased = status === "cancelled" || status === "no_show";
  if (isReleased && resourceIds.length > 0)
    details.push({ path: "resourceIds", message: `must be empty: a ${status} appointment has no resources` });
  if (new Set(resourceIds).size < resourceIds.length)
    details.push({ path: "resourceIds", message: "must contain each resource only once" });
  return details;
}

function findInvalidEnd({ scheduledAt }: ImportedData, resourcesUntil: Instant | null): ErrorDetail[] {
  if (resourcesUntil === null) return [];
  const minutes = (Date.parse(resourcesUntil) - Date.parse(scheduledAt)) / MINUTE_MS;
  if (minutes > 0 && minutes <= MAX_ALLOCATION_MINUTES) return [];
  const message = `must be after scheduledAt, by at most ${MAX_ALLOCATION_MINUTES} minutes`;
  return [{ path: "resourcesUntil", message }];
}

const FUTURE_STATUSES: readonly string[] = ["requested", "confirmed", "cancelled"];
const PAST_TIME_RULE = "must not be in the future";

function createAllocationEvent(
  { appointmentId, scheduledAt }: ImportedData,
  resourceId: string,
  allocationEnd: Instant,
): AppointmentEvent {
  const assignmentId = deriveAssignmentId(appointmentId, resourceId);
  const data = { appointmentId, assignmentId, resourceId, allocationStart: scheduledAt, allocationEnd };
  return { type: "ResourceAllocated", data: { ...data, isConsequence: true } };
}
