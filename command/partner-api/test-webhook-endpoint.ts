import type Koa from "koa";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { testEndpoint } from "../operations/webhook-endpoint-operations.ts";
import { readEndpointReference, toCommandContext } from "./request-context.ts";

/** POST /webhook-endpoints/{endpointId}/test: returns 202. A test event is queued. */
export function testWebhookEndpoint({ log }: { log: EventLog }): Koa.Middleware<ClinicState> {
  return async (ctx) => {
    const { deliveryId } = await testEndpoint(log, readEndpointReference(ctx), toCommandContext(ctx.state));
    ctx.status = 202;
    ctx.body = { ok: true, delivery: { id: deliveryId, status: "pending" } };
  };
}
