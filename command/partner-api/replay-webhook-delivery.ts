import type Koa from "koa";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { replayDelivery } from "../operations/webhook-endpoint-operations.ts";
import { readEndpointReference, readPathId, toCommandContext } from "./request-context.ts";

/** POST …/deliveries/{deliveryId}/replay: returns 202. The replay is queued. */
export function replayWebhookDelivery({ log }: { log: EventLog }): Koa.Middleware<ClinicState> {
  return async (ctx) => {
    const deliveryId = readPathId(ctx, "deliveryId");
    await replayDelivery(log, { ...readEndpointReference(ctx), deliveryId }, toCommandContext(ctx.state));
    ctx.status = 202;
    ctx.body = { ok: true, delivery: { id: deliveryId, status: "pending" } };
  };
}
