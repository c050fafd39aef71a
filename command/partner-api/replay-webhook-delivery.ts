import type Koa from "koa";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { replayDelivery } from "../operations/endpoint-operations.ts";
import { toCommandContext } from "./command-context.ts";
import { endpointOf } from "./endpoint-of-request.ts";
import { pathId } from "./path-id.ts";

/** POST …/deliveries/{deliveryId}/replay: 202, the delivery is queued again. */
export function replayWebhookDelivery({ log }: { log: EventLog }): Koa.Middleware<ClinicState> {
  return async (ctx) => {
    const deliveryId = pathId(ctx, "deliveryId");
    await replayDelivery(log, { ...endpointOf(ctx), deliveryId }, toCommandContext(ctx.state));
    ctx.status = 202;
    ctx.body = { ok: true, delivery: { id: deliveryId, status: "pending" } };
  };
}
