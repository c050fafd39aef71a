import { describeLogPosition, type LogPosition } from "../../shared/eventstore/subscription.ts";

/** The checkpoint was not where this process left it: another one writes, or a rebuild has taken its place. */
export class LostLeadership extends Error {
  override readonly name = "LostLeadership";
}

/** The database's read models have the fingerprint of another release. Anybody may read these words. */
export const OTHER_RELEASE = "the read models belong to another release";

/** Something that the projection cannot get past by itself: for the most part an event that a projector cannot take. */
export class ProjectionFailure extends Error {
  override readonly name = "ProjectionFailure";
  readonly reason: string;
  /** The event; undefined where it is not an event's fault. */
  readonly place: LogPosition | undefined;

  constructor(reason: string, place: LogPosition | undefined, cause: unknown) {
    super(place ? `${describeLogPosition(place)}: ${reason}` : reason, { cause });
    this.reason = reason;
    // The place alone: the event's data are nobody's business here.
    this.place = place && {
      position: place.position,
      stream: place.stream,
      revision: place.revision,
      type: place.type,
    };
  }
}
