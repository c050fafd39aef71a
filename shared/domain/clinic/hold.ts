import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { type HoldEvent, holdStreams } from "../events/appointment.ts";
import type { DataOf } from "../events/category.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";
import { toInstant } from "../time/rfc3339.ts";
import { type Clinic, requireBranch } from "./clinic.ts";

type HoldPlacement = DataOf<HoldEvent, "HoldPlaced">;

/** State of a hold: a time span reserved before an appointment exists. */
interface Hold {
  id: string;
  clinicId: string;
  active: boolean;
  placement: HoldPlacement;
}

export const holdAggregate: Aggregate<typeof holdStreams, Hold> = {
  category: holdStreams,
  evolve(state, event) {
    if (event.type === "HoldReleased") return state && { ...state, active: false };
    const { holdId: id, clinicId } = event.data;
    return { id, clinicId, active: true, placement: event.data };
  },
};

type HoldDecision = Decision<Hold, HoldEvent>;

export function decidePlaceHold(data: HoldPlacement, clinic: Clinic, now: number): HoldDecision {
  return (state) => {
    requireBranch(clinic, data.branchId);
    if (data.endsAt <= data.startsAt)
      throw new DomainError("hold_ends_before_start", "the hold must end after it starts");
    const events: HoldEvent[] = registerIdempotently(state?.placement, { type: "HoldPlaced", data }, "hold");
    // The expiry is checked only for a new hold, so that a command can be repeated after its hold has expired.
    if (events.length > 0 && data.expiresAt <= toInstant(now))
      throw new DomainError("hold_expired", "the expiry time of the hold is in the past");
    return events;
  };
}

export function decideReleaseHold({ clinicId, holdId }: { clinicId: string; holdId: string }): HoldDecision {
  return (state) => {
    if (!requireOwnedBy(clinicId, state, "hold").active) return [];
    return [{ type: "HoldReleased", data: { holdId } }];
  };
}
