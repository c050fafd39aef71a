import { describeLogPosition, type LogPosition } from "../../shared/eventstore/subscription.ts";

/** Another process moved the checkpoint, or a rebuild replaced it. */
export class LeadershipLostError extends Error {
  override readonly name = "LeadershipLostError";
}

/** Public text for read models with the fingerprint of another release. */
export const OTHER_RELEASE = "the read models belong to another release";

/** Failure that the projection cannot resolve by itself, in most cases an event that a projector cannot process. */
export class ProjectionError extends Error {
  override readonly name = "ProjectionError";
  readonly reason: string;
  /** The failed event; undefined if no event is the cause. */
  readonly place: LogPosition | undefined;

  constructor(reason: string, place: LogPosition | undefined, cause: unknown) {
    super(place ? `${describeLogPosition(place)}: ${reason}` : reason, { cause });
    this.reason = reason;
    // Only the place: the data of the event must not appear in logs and statuses.
    this.place = place && {
      position: place.position,
      stream: place.stream,
      revision: place.revision,
      type: place.type,
    };
  }
}
