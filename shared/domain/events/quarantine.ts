import { z } from "zod";
import { notPersonal } from "../personal-data/declaration.ts";
import { defineCategory, type EventOf, limitExcept } from "./category.ts";
import { boundedText, label } from "./fields.ts";

/**
 * Operators' decisions about events that the projectors cannot process. All are in one stream, so that one short read
 * returns them. Stream id: `streams`.
 */
export const quarantineStreams = defineCategory("quarantine", () => "streams", limitExcept<never>(), {
  /**
   * An operator confirmed that faulty events of a type make the projectors fail, and not a fault of this release. The
   * projectors then quarantine the streams of such events, instead of stopping. Applies only to events that precede the
   * confirmation.
   */
  EventTypeConfirmed: z.object({
    eventType: notPersonal(boundedText(200), "name of an event type"),
    reason: notPersonal(label, "reason about an error"),
  }),
});
export type QuarantineEvent = EventOf<typeof quarantineStreams>;
