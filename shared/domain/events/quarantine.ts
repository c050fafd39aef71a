import { z } from "zod";
import { notPersonal } from "../personal-data/declaration.ts";
import { defineCategory, type EventOf, limitExcept } from "./category.ts";
import { boundedText, label } from "./fields.ts";

const stream = notPersonal(boundedText(300), "name of a stream, with an id");

const eventType = notPersonal(boundedText(200), "name of an event type");
/** Operator's reason. */
const reason = notPersonal(label, "reason about an error");

/**
 * Operators' decisions about streams that the projectors cannot process. The projectors skip a quarantined stream from
 * the given revision until an operator resumes it, because they must not fold later events after a gap. All decisions
 * are in one stream, so that one short read returns all quarantined streams. Stream id: `streams`.
 */
export const quarantineStreams = defineCategory("quarantine", () => "streams", limitExcept("StreamResumed"), {
  StreamQuarantined: z.object({
    stream,
    /** Revision of the first event that is skipped. */
    revision: z.int().min(0),
    /**
     * Log position of the first skipped event. The position is a string, because the number may exceed the range of a
     * JSON number.
     */
    position: z.string().regex(/^\d{1,20}$/, "must be a log position"),
    eventType,
    /** Reason why the event cannot be processed. */
    cause: notPersonal(boundedText(2_000), "error message without values of the event"),
    reason,
  }),
  /**
   * An operator confirmed that the events of a type are to blame for their failures, and not the release. Failures before
   * this event no longer stop the projectors.
   */
  EventTypeConfirmed: z.object({ eventType, reason }),
  StreamResumed: z.object({ stream, reason }),
});
export type QuarantineEvent = EventOf<typeof quarantineStreams>;
