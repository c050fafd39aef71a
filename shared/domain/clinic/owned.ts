import { DomainError } from "../domain-error.ts";

/**
 * The state, where it is there and belongs to the clinic. What belongs to another clinic is refused like what does
 * not exist, so that nobody learns of it.
 *
 * @param what for the code and the message: `customer` refuses with `customer_not_found`
 * @throws {DomainError}
 */
export function owned<State extends { clinicId: string }>(
  state: State | undefined,
  clinicId: string,
  what: string,
): State {
  if (state?.clinicId === clinicId) return state;
  throw new DomainError(`${what}_not_found`, `the clinic has no such ${what.replaceAll("_", " ")}`);
}
