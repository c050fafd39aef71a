import type { Category } from "../../shared/events/category.ts";
import type { categories } from "../../shared/events/registry.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type Aggregate, DomainError, load } from "../handle.ts";

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

/** Loads what a command refers to by id, and refuses it as {@link owned} does. */
export async function loadOwned<
  C extends (typeof categories)[number] & Category,
  State extends { clinicId: string },
>(log: EventLog, aggregate: Aggregate<C, State>, id: string, clinicId: string, what: string): Promise<State> {
  const { state } = await load(log, aggregate, id);
  return owned(state, clinicId, what);
}
