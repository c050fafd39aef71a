import type Koa from "koa";
import { requireOwnEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { revokeEndpoint } from "../operations/webhook-endpoint-operations.ts";
import { endpointOf, toCommandContext, toEndpointRecord, type WriteState } from "./request-context.ts";

/** DELETE /webhook-endpoints/{endpointId}: 200, also if repeated. */
export function revokeWebhookEndpoint({ log }: { log: EventLog }): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const input = endpointOf(ctx);
    const { state, seen } = await revokeEndpoint(log, input, toCommandContext(ctx.state));
    ctx.state.logPosition = seen;
    ctx.body = { ok: true, endpoint: toEndpointRecord(requireOwnEndpoint(state, input.owner)) };
  };
}
