import { describeLogPosition, type LogPosition } from "../../shared/eventstore/subscription.ts";

/** Another process moved the checkpoint, or a rebuild or another release replaced the tables. */
export class LeadershipLostError extends Error {
  override readonly name = "LeadershipLostError";
}

/** Reason in health reports and errors if another release built the read models. */
export const OTHER_RELEASE = "the read models belong to another release";

/** Failure that only an operator can resolve, in most cases an event that a projector cannot process. */
export class ProjectionError extends Error {
  override readonly name = "ProjectionError";
  /** Undefined if no event is the cause. */
  readonly failedEventPosition: LogPosition | undefined;
  /** The message without the position of the event. */
  readonly reason: string;

  constructor(reason: string, failedEventPosition: LogPosition | undefined, cause: unknown) {
    super(failedEventPosition ? `${describeLogPosition(failedEventPosition)}: ${reason}` : reason, { cause });
    this.reason = reason;
    if (!failedEventPosition) return;
    // The caller may pass a whole event. Only these fields are kept, because event data must not appear in logs and
    // statuses.
    const { position, stream, revision, type } = failedEventPosition;
    this.failedEventPosition = { position, stream, revision, type };
  }
}
