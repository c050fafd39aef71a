import type { Decision } from "../../shared/domain/aggregate.ts";
import {
  type Appointment,
  appointmentAggregate,
  getEnd,
  InvalidAppointmentError,
} from "../../shared/domain/appointment/appointment.ts";
import { type Clinic, isEntitled } from "../../shared/domain/clinic/clinic.ts";
import { resourceAggregate } from "../../shared/domain/clinic/resource.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import type { AppointmentEvent } from "../../shared/domain/events/appointment.ts";
import { deriveAssignmentId } from "../../shared/domain/events/ids.ts";
import { findFixtureResource, type Sandbox } from "../../shared/domain/partner/sandbox.ts";
import { isOffered, type SearchedResource } from "../../shared/domain/scheduling/free-times.ts";
import { findFullSpans, overlaps, type TimeSpan } from "../../shared/domain/scheduling/occupancy.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { concernsOneStream } from "../../shared/eventstore/stream-failure.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { SCHEDULING_ENTITLEMENT } from "../../shared/partner-api/slot-search.ts";
import { isPostgresUnavailable } from "../../shared/runtime/failures.ts";
import type { LoadAggregate } from "../handling/aggregate-cache.ts";
import { type CommandContext, type CommandResult, handle, loadAggregate } from "../handling/handle.ts";
import { createReservingLog } from "../scheduling/reserving-log.ts";
import type { BookingTime, ReadModels } from "./read-models.ts";

/** Booking of a free time. Either `resourceId` or `resourceType` is given. */
export interface Booking {
  appointmentId: string;
  branchId: string;
  resourceId?: string | undefined;
  resourceType?: string | undefined;
  scheduledAt: string;
  durationMinutes: number;
}

interface BookingDependencies {
  log: EventLog;
  load: LoadAggregate;
  slotSearch: ReadModels["slotSearch"];
  clinic: Clinic;
  /** Null if the clinic is not a sandbox. */
  sandbox: Sandbox | null;
}

/** Fields that a booking adds to the event `AppointmentRequested`. */
type BookedPlace = Pick<Extract<AppointmentEvent, { type: "AppointmentRequested" }>["data"], "place" | "isConfirmed">;

/** A resource that may have a free place. Only the attempt to reserve the place shows whether it is free. */
type Candidate = Pick<SearchedResource, "id" | "timezone" | "rules" | "closures">;

/**
 * Creates an appointment, and books a place for it in the first possible resource that has a free place.
 *
 * @param decide creates the decision for a booked place. It is also called without a place, to check a new request
 *   before the booking, and to answer a repeated request
 * @throws {DomainError} `slot_taken`, and what `decide` throws
 * @throws {InvalidAppointmentError} if no resource offers the time
 * @throws {ApiError} 403 `entitlement_required`
 */
export async function bookAppointment(
  dependencies: BookingDependencies,
  booking: Booking,
  decide: (place: BookedPlace) => Decision<Appointment, AppointmentEvent>,
  context: CommandContext,
): Promise<CommandResult<Appointment>> {
  const { log, clinic, sandbox } = dependencies;
  const { appointmentId } = booking;
  const reservingLog = createReservingLog(log, { sandbox, overbooks: false, context });
  const book = (place: BookedPlace, isExpectedNew: boolean) =>
    handle(reservingLog, appointmentAggregate, appointmentId, decide(place), { ...context, isExpectedNew });
  const { state } = await loadAggregate(log, appointmentAggregate, appointmentId);
  // A repeated request gets the existing appointment, even if it would be refused now.
  if (state) return book({}, false);
  decide({})(undefined);
  if (!isEntitled(clinic, SCHEDULING_ENTITLEMENT, context.now)) throw new ApiError(403, "entitlement_required");
  let refusal: unknown = new DomainError("slot_taken", "no resource has a free place at that time");
  for (const { id: resourceId } of await findCandidates(dependencies, booking, context.now)) {
    const place = { assignmentId: deriveAssignmentId(appointmentId, resourceId), resourceId };
    try {
      return await book({ place, ...(clinic.bookingRules.confirmsBookings && { isConfirmed: true }) }, true);
    } catch (error) {
      const isTaken = error instanceof DomainError && UNBOOKABLE.has(error.code);
      // A day that cannot be read is not bookable, but other resources are.
      if (!isTaken && !(await concernsOneStream(log, error))) throw error;
      if (!isTaken) refusal = error;
    }
  }
  throw refusal;
}

/** Codes of refusals after which other resources can be free. Caches and read models can lag behind a retirement. */
const UNBOOKABLE = new Set(["slot_taken", "resource_not_available", "resource_not_found"]);

/** Maximum number of resources that a request tries to book. */
const MAX_CANDIDATES = 20;

/**
 * Finds the resources to try. Resources that seem to have a free place come first. Different requests start with
 * different resources, so that they rarely compete for the same place.
 */
async function findCandidates(dependencies: BookingDependencies, booking: Booking, now: number): Promise<Candidate[]> {
  const { branchId, resourceId, resourceType = "", scheduledAt, durationMinutes } = booking;
  const { clinic } = dependencies;
  const { gridMinutes } = clinic.bookingRules;
  const endsAt = getEnd(booking);
  const span = { fromMs: Date.parse(scheduledAt), toMs: Date.parse(endsAt) };
  const search = { clinicId: clinic.id, branchId, startsAt: scheduledAt, endsAt, now: toInstant(now) };
  const resources = await (resourceId === undefined
    ? findOfType(dependencies, booking, { ...search, resourceType }, span)
    : findNamed(dependencies, resourceId, search));
  const offered = resources.filter((resource) =>
    isOffered(resource, span.fromMs, { durationMinutes, gridMinutes, nowMs: now }),
  );
  if (offered.length === 0) refuse("scheduledAt", "is not a starting time of the resource; see GET /slots");
  return offered
    .filter(({ closures }) => !closures.some((closure) => overlaps(closure, span)))
    .slice(0, MAX_CANDIDATES);
}

async function findOfType(
  { slotSearch }: BookingDependencies,
  { appointmentId }: Booking,
  search: BookingTime & { resourceType: string },
  span: TimeSpan,
): Promise<Candidate[]> {
  const resources = await slotSearch.findResources(search);
  if (resources.length === 0) refuse("resourceType", "is not the type of a bookable resource of the branch");
  const first = Number.parseInt(appointmentId.slice(0, 8), 16) % resources.length;
  const rotated = [...resources.slice(first), ...resources.slice(0, first)];
  const isFull = ({ capacity, occupations }: SearchedResource) =>
    findFullSpans(capacity, occupations).some((fullSpan) => overlaps(fullSpan, span));
  // The read models can lag behind a cancellation, so a resource that seems full is tried last.
  return [...rotated.filter((resource) => !isFull(resource)), ...rotated.filter(isFull)];
}

/**
 * Returns the requested resource as the only candidate. If the read models are unavailable, does not check the times
 * for which the whole branch is held.
 */
async function findNamed(
  { load, slotSearch, sandbox }: BookingDependencies,
  resourceId: string,
  search: BookingTime,
): Promise<Candidate[]> {
  const [resource, closures] = await Promise.all([
    sandbox ? findFixtureResource(sandbox, resourceId) : load(resourceAggregate, resourceId).then(({ state }) => state),
    slotSearch.findClosures(search).catch((error: unknown) => {
      if (isPostgresUnavailable(error) || (error instanceof ApiError && error.status === 503)) return [];
      throw error;
    }),
  ]);
  if (resource?.clinicId !== search.clinicId || resource.branchId !== search.branchId || !resource.active)
    refuse("resourceId", "is not a bookable resource of the branch");
  return [{ id: resourceId, timezone: resource.addition.timezone, rules: Object.values(resource.rules), closures }];
}

function refuse(path: string, message: string): never {
  throw new InvalidAppointmentError([{ path, message }]);
}
