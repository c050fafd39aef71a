import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { type HoldEvent, holdCategory } from "../events/appointment.ts";
import type { DataOf } from "../events/category.ts";
import { registerIdempotently, requireOwnedBy } from "../preconditions.ts";
import { toInstant } from "../time/rfc3339.ts";
import { branchOf, type Clinic } from "./clinic.ts";

export type HoldPlacement = DataOf<HoldEvent, "HoldPlaced">;

/** A time kept free before an appointment exists. */
export interface Hold {
  id: string;
  clinicId: string;
  active: boolean;
  placement: HoldPlacement;
}

export const holdAggregate: Aggregate<typeof holdCategory, Hold> = {
  category: holdCategory,
  evolve(state, event) {
    if (event.type === "HoldReleased") return state && { ...state, active: false };
    const { holdId: id, clinicId } = event.data;
    return { id, clinicId, active: true, placement: event.data };
  },
};

type HoldDecision = Decision<Hold, HoldEvent>;

export function decidePlaceHold(data: HoldPlacement, clinic: Clinic, now: number): HoldDecision {
  return (state) => {
    branchOf(clinic, data.branchId);
    if (data.endsAt <= data.startsAt)
      throw new DomainError("hold_ends_before_start", "the hold ends too early");
    const events: HoldEvent[] = registerIdempotently(state?.placement, { type: "HoldPlaced", data }, "hold");
    // Asked of a new hold only: an old one may be repeated after it has expired.
    if (events.length > 0 && data.expiresAt <= toInstant(now))
      throw new DomainError("hold_expired", "the hold would have expired already");
    return events;
  };
}

export function decideReleaseHold({ clinicId, holdId }: { clinicId: string; holdId: string }): HoldDecision {
  return (state) => {
    if (!requireOwnedBy(clinicId, state, "hold").active) return [];
    return [{ type: "HoldReleased", data: { holdId } }];
  };
}
