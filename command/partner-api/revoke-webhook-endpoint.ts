import type Koa from "koa";
import { requireOwnEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { revokeEndpoint } from "../operations/webhook-endpoint-operations.ts";
import { readEndpointReference, toCommandContext, toEndpointRecord, type WriteState } from "./request-context.ts";

/** DELETE /webhook-endpoints/{endpointId}: returns 200, also for a repeated request. */
export function revokeWebhookEndpoint({ log }: { log: EventLog }): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const endpointReference = readEndpointReference(ctx);
    const { state, statePosition } = await revokeEndpoint(log, endpointReference, toCommandContext(ctx.state));
    ctx.state.logPosition = statePosition;
    ctx.body = { ok: true, endpoint: toEndpointRecord(requireOwnEndpoint(state, endpointReference.owner)) };
  };
}
