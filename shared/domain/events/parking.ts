import { z } from "zod";
import { defineCategory, type EventOf } from "./category.ts";
import { label, word } from "./fields.ts";

const stream = word(300);

/**
 * Operators' decisions about streams that the projectors or the relay cannot process. A parked stream is skipped from
 * the given revision until it is resumed. It is skipped by all consumers, because later events must not be folded
 * over a gap. If only the relay failed, it is skipped only by the relay. All decisions are in one stream, so that the
 * list of parked streams is one short read. Stream id: `streams`.
 */
export const parkingCategory = defineCategory("parking", {
  StreamParked: z.object({
    stream,
    /** Revision of the first event that is skipped. */
    revision: z.int().min(0),
    /** Log position of that event. A string, because it may exceed the range of a JSON number. */
    position: z.string().regex(/^\d{1,20}$/, "must be a log position"),
    eventType: word(200),
    passedOverBy: z.enum(["all", "relay"]),
    /** Reason why the event cannot be processed. */
    cause: word(2_000),
    /** Operator's reason for parking the stream. */
    reason: label,
  }),
  StreamResumed: z.object({ stream, reason: label }),
});
export type ParkingEvent = EventOf<typeof parkingCategory>;
