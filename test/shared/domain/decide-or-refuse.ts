import { DomainError } from "../../../shared/domain/domain-error.ts";

/** Runs a decider. Returns its events, or an empty array if a domain rule refuses the command. */
export function decideOrRefuse<State, Event>(
  decide: (state: State | undefined) => Event[],
  state: State | undefined,
): Event[] {
  try {
    return decide(state);
  } catch (error) {
    if (error instanceof DomainError) return [];
    throw error;
  }
}
