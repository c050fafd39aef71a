import type { Decision } from "../aggregate.ts";
import type { Animal } from "../clinic/animal.ts";
import type { Clinic } from "../clinic/clinic.ts";
import type { Customer } from "../clinic/customer.ts";
import { DomainError, type ErrorDetail } from "../domain-error.ts";
import type { AppointmentEvent } from "../events/appointment.ts";
import type { DataOf } from "../events/category.ts";
import type { ConsentCoverage } from "../events/consent.ts";
import { isErased } from "../personal-data/erasure.ts";
import { type Appointment, InvalidAppointmentError, NOT_IN_FUTURE } from "./appointment.ts";

export type AppointmentRequest = Omit<DataOf<AppointmentEvent, "AppointmentRequested">, "customerId">;

/** Current data that a request is checked against. */
interface RequestContext {
  clinic: Clinic;
  /** The animal in the request, which may belong to another clinic; undefined if the animal does not exist. */
  animal: Animal | undefined;
  /** Owner of the animal; undefined if there is no animal, or the animal belongs to a sandbox's fixture. */
  customer: Customer | undefined;
  /** Access of the caller to the animal's data. With `none`, the animal is reported as missing. */
  animalAccess: "none" | ConsentCoverage;
  /** Branches that the caller may use; null for all branches of the clinic. */
  permittedBranchIds: string[] | null;
  /** Time of the request. Milliseconds since 1970. */
  now: number;
}

/**
 * Requests an appointment for the animal's owner. Repeating a request changes nothing, even if the requested time has
 * passed. If the caller has lost access to the branch or the animal, a repeated request is refused like a new one.
 *
 * @throws {InvalidAppointmentError}
 * @throws {DomainError} `insufficient_consent`; `idempotency_conflict` if the id belongs to another request
 */
export function requestAppointment(
  request: AppointmentRequest,
  context: RequestContext,
): Decision<Appointment, AppointmentEvent> {
  return (state) => {
    const accessProblems = findAccessProblems(request, context);
    if (accessProblems.length === 0 && context.animalAccess === "appointments_read")
      throw new DomainError("insufficient_consent", "the owner has not consented to new appointments of the animal");
    if (state && accessProblems.length === 0) {
      if (isRepeated(state, request)) return [];
      throw new DomainError("idempotency_conflict", "the idempotency key was used for another request");
    }
    const details = [...accessProblems, ...findFurtherProblems(request, context)];
    if (details.length > 0) throw new InvalidAppointmentError(details);
    const customerId = request.animalId === null ? null : (context.animal?.customerId ?? null);
    return [{ type: "AppointmentRequested", data: { ...request, customerId } }];
  };
}

/**
 * Returns true if a request or import repeats the one that created the appointment. Erased texts match every text, so
 * that a repetition after an erasure neither fails nor reveals the erased text.
 */
export function isRepeated(
  { requestHash, textHash }: Appointment,
  repetition: Pick<Appointment, "requestHash" | "textHash">,
): boolean {
  const hasSameTexts = textHash === null || textHash === repetition.textHash;
  return requestHash !== null && requestHash === repetition.requestHash && hasSameTexts;
}

/** Error message for an animal whose owner's contact data is erased. */
export const OWNER_ERASED = "belongs to a customer whose personal data was erased";

/**
 * Checks the access to the branch and the animal. An object of another clinic is reported as missing, so that the
 * existence of the object is not revealed.
 */
function findAccessProblems({ branchId, animalId }: AppointmentRequest, context: RequestContext): ErrorDetail[] {
  const { clinic, permittedBranchIds } = context;
  const details: ErrorDetail[] = [];
  const isBranchKnown = clinic.branches.some(({ id }) => id === branchId);
  if (!isBranchKnown || permittedBranchIds?.includes(branchId) === false) {
    details.push({ path: "branchId", message: "is not a branch of the clinic" });
  }
  if (animalId !== null && !isAnimalVisible(context)) {
    details.push({ path: "animalId", message: "is not an animal of the clinic" });
  }
  return details;
}

function isAnimalVisible({ clinic, animal, animalAccess }: RequestContext): boolean {
  return animal?.clinicId === clinic.id && animalAccess !== "none";
}

function findFurtherProblems({ scheduledAt }: AppointmentRequest, context: RequestContext): ErrorDetail[] {
  const details: ErrorDetail[] = [];
  if (isAnimalVisible(context) && context.customer && isErased(context.customer)) {
    details.push({ path: "animalId", message: OWNER_ERASED });
  }
  if (Date.parse(scheduledAt) <= context.now) details.push(NOT_IN_FUTURE);
  return details;
}
