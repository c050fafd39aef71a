import type { Decision } from "../aggregate.ts";
import type { Animal } from "../clinic/animal.ts";
import type { Clinic } from "../clinic/clinic.ts";
import { DomainError, type ErrorDetail } from "../domain-error.ts";
import type { AppointmentEvent } from "../events/appointment.ts";
import type { DataOf } from "../events/category.ts";
import type { Appointment } from "./appointment.ts";

export type AppointmentRequest = Omit<DataOf<AppointmentEvent, "AppointmentRequested">, "customerId">;

/** What a request is judged by. */
export interface RequestFacts {
  clinic: Clinic;
  /** The animal that the request names, wherever it belongs; undefined where there is none. */
  animal: Animal | undefined;
  /** The branches that the caller may use; null for all of the clinic. */
  permittedBranchIds: string[] | null;
  /** Milliseconds since 1970. */
  now: number;
}

/** A request with something wrong in it, all of it named. */
export class InvalidAppointment extends DomainError {
  declare readonly details: ErrorDetail[];

  constructor(details: ErrorDetail[]) {
    super("validation_failed", details.map(({ path, message }) => `${path} ${message}`).join("; "), details);
  }
}

/**
 * Requests an appointment. The same request again changes nothing, whatever has become of its time and of what it
 * names; the owner is the animal's.
 *
 * @throws {InvalidAppointment}
 * @throws {DomainError} `idempotency_conflict` where the id stands for another request
 */
export function decideRequest(
  request: AppointmentRequest,
  facts: RequestFacts,
): Decision<Appointment, AppointmentEvent> {
  return (state) => {
    if (state) {
      if (state.requestHash !== null && state.requestHash === request.requestHash) return [];
      throw new DomainError("idempotency_conflict", "another appointment was requested by this key");
    }
    const details = problems(request, facts);
    if (details.length > 0) throw new InvalidAppointment(details);
    const customerId = request.animalId === null ? null : (facts.animal?.customerId ?? null);
    return [{ type: "AppointmentRequested", data: { ...request, customerId } }];
  };
}

/** What belongs to another clinic is unknown, in the same words, so that nobody learns of it. */
function problems(request: AppointmentRequest, facts: RequestFacts): ErrorDetail[] {
  const { clinic, animal, permittedBranchIds, now } = facts;
  const { branchId } = request;
  const details: ErrorDetail[] = [];
  const branchKnown = clinic.branches.some(({ id }) => id === branchId);
  if (!branchKnown || permittedBranchIds?.includes(branchId) === false) {
    details.push({ path: "branchId", message: "is not a branch of the clinic" });
  }
  if (request.animalId !== null && animal?.clinicId !== clinic.id) {
    details.push({ path: "animalId", message: "is not an animal of the clinic" });
  }
  if (Date.parse(request.scheduledAt) <= now) {
    details.push({ path: "scheduledAt", message: "must be in the future" });
  }
  return details;
}
