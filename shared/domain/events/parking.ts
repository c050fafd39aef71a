import { z } from "zod";
import { defineCategory, type EventOf } from "./category.ts";
import { label, word } from "./fields.ts";

const stream = word(300);

/**
 * What operators decided about streams that the projectors or the relay cannot take. From its parking until it is
 * resumed, a stream is passed over from that revision on: by all, since whatever came later would be folded over a gap,
 * or by the relay alone, where the read models have it and only partners cannot be told. One stream for all of them, so
 * that the list of parked streams is one short read. Stream id: `streams`.
 */
export const parkingCategory = defineCategory("parking", {
  StreamParked: z.object({
    stream,
    /** The first event that is passed over. */
    revision: z.int().min(0),
    /** Where it stands in the log. A text, since it may be beyond what a JSON number holds. */
    position: z.string().regex(/^\d{1,20}$/, "must be a position in the log"),
    eventType: word(200),
    passedOverBy: z.enum(["all", "relay"]),
    /** Why it cannot be taken. */
    cause: word(2_000),
    /** Why the operator parks it. */
    reason: label,
  }),
  StreamResumed: z.object({ stream, reason: label }),
});
export type ParkingEvent = EventOf<typeof parkingCategory>;
