import { createUpdateHandler, defineReadModel, toColumns } from "../engine/read-model.ts";

/** Bulk replays. The webhooks role replays the deliveries of each unfinished bulk replay. */
export const webhookReplays = defineReadModel({
  table: "webhook_replay",
  columns: {
    replay_id: "uuid",
    endpoint_id: "uuid",
    application_id: "uuid",
    clinic_id: "uuid",
    environment: "text",
    since: "timestamptz",
    until: "timestamptz",
    statuses: "jsonb",
    delivery_ids: "jsonb",
    /** Id and log position of the request. */
    request_id: "uuid",
    position: "bigint",
    correlation_id: "uuid",
    requested_at: "timestamptz",
    /** `completed` or `stopped`; null until the replay has ended. */
    outcome: "text",
    replayed_count: "numeric",
    not_replayed_count: "numeric",
    finished_at: "timestamptz",
  },
  nullable: ["clinic_id", "since", "delivery_ids", "outcome", "finished_at"],
  primaryKey: ["replay_id"],
  indexes: [{ columns: "application_id", where: "outcome IS NULL" }],
  key: (event) => [event.data.replayId],
  on: {
    WebhookReplayRequested: (_, { id, data: { requestHash: __, ...request }, metadata, position }) => ({
      ...toColumns(request),
      request_id: id,
      position: String(position),
      correlation_id: metadata.$correlationId,
      requested_at: metadata.occurredAt,
      outcome: null,
      replayed_count: 0,
      not_replayed_count: 0,
      finished_at: null,
    }),
    WebhookReplayCompleted: createUpdateHandler(({ data: { outcome, replayedCount, notReplayedCount }, metadata }) => ({
      outcome,
      replayed_count: replayedCount,
      not_replayed_count: notReplayedCount,
      finished_at: metadata.occurredAt,
    })),
  },
});
