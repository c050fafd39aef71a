import { z } from "zod";
import { replayableStatus } from "../domain/events/partner.ts";

const instant = z.iso.datetime({ precision: 3 });

/** Schema of a replay of several deliveries, with its progress. */
export const webhookReplayRecord = z.strictObject({
  id: z.guid(),
  endpointId: z.guid(),
  since: instant.nullable().describe("Start of the range of creation times. Null if `deliveryIds` selects deliveries."),
  until: instant.describe("End of the range of creation times, exclusive."),
  statuses: z.array(replayableStatus).describe("Statuses of the deliveries to replay."),
  deliveryIds: z.array(z.guid()).nullable().describe("Deliveries to replay. Null if `since` selects deliveries."),
  status: z
    .enum(["pending", "running", "completed", "stopped"])
    .describe(
      "`completed`: all replays are queued, and the list of deliveries shows their outcomes. `stopped`: before that, the endpoint lost the right to receive deliveries, for example because it was disabled.",
    ),
  replayedCount: z.int().min(0).describe("Number of deliveries that were queued again."),
  notReplayedCount: z
    .int()
    .min(0)
    .describe(
      "Number of deliveries that could not be replayed, because their event is no longer available. Ids in `deliveryIds` without a replayable delivery count too.",
    ),
  requestedAt: instant,
  finishedAt: instant.nullable(),
});
export type WebhookReplayRecord = z.infer<typeof webhookReplayRecord>;
