import { z } from "zod";
import { defineCategory, type EventOf } from "./category.ts";
import { label, word } from "./fields.ts";

const stream = word(300);

/**
 * What operators decided about streams that a projector cannot take. From its parking until it is resumed, a stream is
 * passed over from that revision on, since whatever came later would be folded over a gap. One stream for all of
 * them, so that the list of parked streams is one short read. Stream id: `streams`.
 */
export const parkingCategory = defineCategory("parking", {
  StreamParked: z.object({
    stream,
    /** The first event that is passed over. */
    revision: z.int().min(0),
    /** Where it stands in the log. A text, since it may be beyond what a JSON number holds. */
    position: z.string().regex(/^\d{1,20}$/),
    eventType: word(200),
    /** Why a projector cannot take it. */
    cause: word(2_000),
    /** Why the operator parks it. */
    reason: label,
  }),
  StreamResumed: z.object({ stream, reason: label }),
});
export type ParkingEvent = EventOf<typeof parkingCategory>;
