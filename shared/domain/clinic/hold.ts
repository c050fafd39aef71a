import { type Aggregate, createClinicRecorder, type Decision, defineAggregate } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import { type HoldEvent, holdStreams, MAX_ALLOCATION_MINUTES } from "../events/appointment.ts";
import type { DataOf } from "../events/category.ts";
import { registerIdempotently } from "../preconditions.ts";
import { MINUTE_MS } from "../time/local-time.ts";
import { toInstant } from "../time/rfc3339.ts";
import { type Clinic, requireBranch } from "./clinic.ts";

type HoldPlacement = Omit<DataOf<HoldEvent, "HoldPlaced">, "reservationId">;

/** State of a hold: a time span reserved before an appointment exists. */
interface Hold {
  id: string;
  clinicId: string;
  active: boolean;
  placement: HoldPlacement;
}

export const holdAggregate: Aggregate<typeof holdStreams, Hold> = defineAggregate(
  holdStreams,
  {
    HoldPlaced({ reservationId: _, ...placement }) {
      return { id: placement.holdId, clinicId: placement.clinicId, active: true, placement };
    },
  },
  { HoldReleased: () => ({ active: false }), HoldReservationAbandoned: () => ({}) },
);

export function placeHold(data: HoldPlacement, clinic: Clinic, now: number): Decision<Hold, HoldEvent> {
  return (state) => {
    requireBranch(clinic, data.branchId);
    if (data.endsAt <= data.startsAt)
      throw new DomainError("hold_ends_before_start", "the hold must end after it starts");
    const isLong = Date.parse(data.endsAt) - Date.parse(data.startsAt) > MAX_ALLOCATION_MINUTES * MINUTE_MS;
    if (data.resourceId !== null && isLong)
      throw new DomainError(
        "hold_too_long",
        `the hold of a resource must not be longer than ${MAX_ALLOCATION_MINUTES} minutes`,
      );
    const events: HoldEvent[] = registerIdempotently(state?.placement, { type: "HoldPlaced", data }, "hold");
    // The expiry is checked only for a new hold, so that a command can be repeated after its hold has expired.
    if (events.length > 0 && data.expiresAt <= toInstant(now))
      throw new DomainError("hold_expired", "the expiry time of the hold is in the past");
    return events;
  };
}

export const releaseHold = createClinicRecorder(holdAggregate, "hold")("HoldReleased", ({ active }) => active);
