import { DomainError } from "../domain-error.ts";
import { isEqual } from "../equal.ts";

/**
 * A registration: the first one counts, the same again changes nothing.
 *
 * @param known the data of the registration that there is already
 * @param what for the code and the message: `customer` refuses with `customer_exists`
 * @throws {DomainError} where the id is taken by other data
 */
export function registerOnce<Event extends { data: object }>(
  known: Event["data"] | undefined,
  event: Event,
  what: string,
): Event[] {
  if (known === undefined) return [event];
  if (isEqual(known, event.data)) return [];
  throw new DomainError(`${what}_exists`, `the id belongs to another ${what.replaceAll("_", " ")} already`);
}
