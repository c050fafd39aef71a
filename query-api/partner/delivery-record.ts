import { z } from "zod";
import { deliveredEventType } from "../../shared/domain/events/partner.ts";
import { defineRecord } from "../../shared/partner-api/define-record.ts";
import { attemptErrors } from "../../shared/webhooks/attempt-error.ts";
import { instant, uuid } from "../http/fields.ts";

const attemptErrorsText = [
  "Error code if the attempt got no response, otherwise null. New codes may be added. Current codes:",
  ...Object.entries(attemptErrors).map(([code, meaning]) => `- \`${code}\`: ${meaning}`),
].join("\n");

/** An attempt `t` of a delivery. */
export const webhookAttempt = defineRecord("t", {
  number: z.int().min(1),
  startedAt: instant,
  durationMs: z
    .int()
    .nullable()
    .describe(
      "Duration of the attempt in milliseconds. Null while the attempt is in progress. If the service stopped during the attempt, the value stays null: the outcome is unknown, and another attempt follows.",
    ),
  statusCode: z.int().nullable().describe("HTTP status of the response. Null if there was no response."),
  error: z.string().nullable().describe(attemptErrorsText),
  answer: z.string().nullable().describe("First part of the response body, at most 1 KiB."),
});

export const deliveryStatus = z.enum(["pending", "delivered", "failed", "skipped", "cancelled"]);
export type DeliveryStatus = z.infer<typeof deliveryStatus>;

/** The start of an attempt updates a delivery, but not its row. */
const LAST_START_SQL =
  "SELECT started_at FROM webhooks.attempt WHERE delivery_id = d.delivery_id ORDER BY number DESC LIMIT 1";

/** A delivery `d` without its attempts. */
export const webhookDelivery = defineRecord(
  "d",
  {
    id: uuid,
    eventId: uuid,
    type: deliveredEventType,
    appointmentId: uuid
      .nullable()
      .describe("Appointment of the event. Null for test events and events about endpoints."),
    status: deliveryStatus,
    nextAttemptAt: instant
      .nullable()
      .describe(
        "Time at which the next attempt is due. Null unless the status is `pending`. If this time has passed, the delivery is waiting for a free slot, for an earlier delivery of the same appointment, or for the operator to approve the endpoint's origin again. After 30 days without approval, the delivery becomes `skipped`.",
      ),
    createdAt: instant,
    updatedAt: instant,
  },
  { id: "delivery_id", type: "event_type", updatedAt: `GREATEST(d.updated_at, (${LAST_START_SQL}))` },
);

/**
 * Returns SQL that selects the latest attempts of a delivery `d` as a JSON array, oldest attempt first. Replays can add
 * many attempts, so their number is limited.
 *
 * @param attemptSql SQL of an attempt `t` as JSON
 */
export function buildAttemptsSql(attemptSql: string, maxAttempts: number): string {
  return `coalesce((SELECT json_agg(${attemptSql} ORDER BY t.number)
    FROM (SELECT * FROM webhooks.attempt WHERE delivery_id = d.delivery_id
      ORDER BY number DESC LIMIT ${maxAttempts}) t), '[]')`;
}
