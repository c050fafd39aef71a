import { DomainError } from "./domain-error.ts";
import { isEqual } from "./equal.ts";

/** Checks that several aggregates share. `what` names the aggregate in snake_case, for the code and the message. */

/** @throws {DomainError} `<what>_not_found` if there is no such aggregate */
export function requireExisting<State>(state: State | undefined, what: string): State {
  if (state !== undefined) return state;
  throw new DomainError(`${what}_not_found`, `there is no such ${words(what)}`);
}

/**
 * Requires that an aggregate exists and belongs to the clinic. An aggregate of another clinic is refused as if it did
 * not exist, so that its existence is not revealed.
 *
 * @throws {DomainError} `<what>_not_found`
 */
export function requireOwnedBy<State extends { clinicId: string }>(
  clinicId: string,
  state: State | undefined,
  what: string,
): State {
  if (state?.clinicId === clinicId) return state;
  throw new DomainError(`${what}_not_found`, `the clinic has no such ${words(what)}`);
}

/**
 * Registers an aggregate once. Repeating the registration with equal data returns no event.
 *
 * @param registered the data of the existing registration; undefined if there is none
 * @throws {DomainError} `<what>_exists` if the id is registered with other data
 */
export function registerIdempotently<Event extends { data: object }>(
  registered: Event["data"] | undefined,
  event: Event,
  what: string,
): Event[] {
  if (registered === undefined) return [event];
  if (isEqual(registered, event.data)) return [];
  throw new DomainError(`${what}_exists`, `the id already belongs to another ${words(what)}`);
}

function words(what: string): string {
  return what.replaceAll("_", " ");
}
