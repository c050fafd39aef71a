import type Koa from "koa";
import type { Replay } from "../../shared/domain/partner/webhook-replay.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { PartnerState } from "../../shared/partner-api/access.ts";
import { type WebhookReplayRecord, webhookReplay } from "../../shared/partner-api/records.ts";
import { webhookReplayRequest } from "../../shared/partner-api/request-bodies.ts";
import { type FindReplayableDelivery, replayDelivery, requestReplay } from "../operations/replay-operations.ts";
import { parseIdempotentRequest } from "./errors.ts";
import { type EndpointWriteState, readEndpointReference, readPathId, toCommandContext } from "./request-context.ts";

/** POST …/deliveries/{deliveryId}/replay: returns 202. The replay is queued. */
export function replayWebhookDelivery(dependencies: {
  log: EventLog;
  findReplayableDelivery: FindReplayableDelivery;
}): Koa.Middleware<PartnerState> {
  return async (ctx) => {
    const deliveryId = readPathId(ctx, "deliveryId");
    const input = { ...readEndpointReference(ctx), deliveryId };
    await replayDelivery(dependencies, input, toCommandContext(ctx.state));
    ctx.status = 202;
    ctx.body = { ok: true, delivery: { id: deliveryId, status: "pending" } };
  };
}

/** POST /webhook-endpoints/{endpointId}/replays: returns 202, also for a repeated request. */
export function replayWebhookDeliveries({ log }: { log: EventLog }): Koa.Middleware<EndpointWriteState> {
  return async (ctx) => {
    const reference = readEndpointReference(ctx);
    const { body: request, idempotencyKey } = parseIdempotentRequest(ctx, webhookReplayRequest, 400);
    const input = { ...reference, request, idempotencyKey };
    const { initialState, events, statePosition } = await requestReplay(log, input, toCommandContext(ctx.state));
    if (!initialState) throw new Error("the replay has no first event");
    ctx.state.logPosition = statePosition;
    if (events.length === 0) ctx.set("Idempotent-Replayed", "true");
    ctx.status = 202;
    ctx.body = { ok: true, replay: toReplayRecord(initialState) };
  };
}

export function toReplayRecord(replay: Replay): WebhookReplayRecord {
  const progress = { status: "pending" as const, replayedCount: 0, notReplayedCount: 0, finishedAt: null };
  return webhookReplay.pick({ ...replay, ...progress });
}
