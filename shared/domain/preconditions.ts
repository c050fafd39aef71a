import { DomainError } from "./domain-error.ts";
import { isEqual } from "./equal.ts";
import type { Instant } from "./time/rfc3339.ts";

/**
 * Requires that an aggregate exists.
 *
 * @param objectName name of the aggregate in snake_case, for the error's code and message
 * @throws {DomainError} `<objectName>_not_found`
 */
export function requireExisting<State>(state: State | undefined, objectName: string): State {
  if (state !== undefined) return state;
  throw new DomainError(`${objectName}_not_found`, `there is no such ${toWords(objectName)}`);
}

/**
 * Requires that an aggregate exists and belongs to the clinic. An aggregate of another clinic is reported as missing,
 * so that the existence of the aggregate is not revealed.
 *
 * @param objectName name of the aggregate in snake_case, for the error's code and message
 * @throws {DomainError} `<objectName>_not_found`
 */
export function requireOwnedBy<State extends { clinicId: string }>(
  clinicId: string,
  state: State | undefined,
  objectName: string,
): State {
  if (state?.clinicId === clinicId) return state;
  throw new DomainError(`${objectName}_not_found`, `the clinic has no such ${toWords(objectName)}`);
}

/**
 * Registers an aggregate. Repeating the registration with the same data returns no event.
 *
 * @param registeredData data of the existing registration; undefined if the aggregate does not exist
 * @param objectName name of the aggregate in snake_case, for the error's code and message
 * @throws {DomainError} `<objectName>_exists` if the id is already registered with other data
 */
export function registerIdempotently<Event extends { data: object }>(
  registeredData: Event["data"] | undefined,
  event: Event,
  objectName: string,
): Event[] {
  if (registeredData === undefined) return [event];
  if (!isEqual(registeredData, event.data)) refuseExisting(registeredData, objectName);
  return [];
}

/** @throws {DomainError} `<objectName>_exists` if an aggregate exists */
export function refuseExisting(state: object | undefined, objectName: string): void {
  if (!state) return;
  throw new DomainError(`${objectName}_exists`, `the id already belongs to another ${toWords(objectName)}`);
}

/**
 * Requires that a credential has no expiry time or a future expiry time.
 *
 * @param now milliseconds since 1970
 * @throws {DomainError} `expiry_passed`
 */
export function requireFutureExpiry({ expiresAt }: { expiresAt: Instant | null }, now: number): void {
  if (expiresAt === null || Date.parse(expiresAt) > now) return;
  throw new DomainError("expiry_passed", "the expiry time is in the past");
}

function toWords(objectName: string): string {
  return objectName.replaceAll("_", " ");
}
