import type Koa from "koa";
import type { Replay } from "../../shared/domain/partner/webhook-replay.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { type WebhookReplayRequest, webhookReplayRequest } from "../../shared/partner-api/request-bodies.ts";
import type { WebhookReplayRecord } from "../../shared/partner-api/webhook-replay-record.ts";
import { requestReplay } from "../operations/request-replay.ts";
import { toErrorDetails } from "./errors.ts";
import { readIdempotencyKey } from "./idempotency-key.ts";
import { readEndpointReference, toCommandContext, type WriteState } from "./request-context.ts";

/** POST /webhook-endpoints/{endpointId}/replays: returns 202, also for a repeated request. */
export function replayWebhookDeliveries({ log }: { log: EventLog }): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const input = { ...readEndpointReference(ctx), ...readReplayRequest(ctx) };
    const { initialState, events, statePosition } = await requestReplay(log, input, toCommandContext(ctx.state));
    if (!initialState) throw new Error("the replay has no first event");
    ctx.state.logPosition = statePosition;
    if (events.length === 0) ctx.set("Idempotent-Replayed", "true");
    ctx.status = 202;
    ctx.body = { ok: true, replay: toReplayRecord(initialState) };
  };
}

/** @throws {ApiError} 400 `validation_failed` with all problems of the body and the Idempotency-Key header */
function readReplayRequest(ctx: Koa.ParameterizedContext): { request: WebhookReplayRequest; idempotencyKey: string } {
  const key = readIdempotencyKey(ctx);
  const body = webhookReplayRequest.safeParse(ctx.request.body);
  const details = [...(typeof key === "string" ? [] : [key]), ...(body.success ? [] : toErrorDetails(body.error))];
  if (typeof key !== "string" || !body.success) throw new ApiError(400, "validation_failed", { details });
  return { request: body.data, idempotencyKey: key };
}

/** Converts a new replay to its form in the partner API. */
function toReplayRecord(replay: Replay): WebhookReplayRecord {
  const { id, endpointId, since, until, statuses, deliveryIds, requestedAt } = replay;
  const progress = { status: "pending", replayedCount: 0, notReplayedCount: 0 } as const;
  return { id, endpointId, since, until, statuses, deliveryIds, ...progress, requestedAt, finishedAt: null };
}
