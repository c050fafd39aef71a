import type Koa from "koa";
import { requireOwnEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { disableOwnEndpoint } from "../operations/webhook-endpoint-operations.ts";
import { readEndpointReference, toCommandContext, toEndpointDetail, type WriteState } from "./request-context.ts";

/** POST /webhook-endpoints/{endpointId}/disable: returns 200, also for a repeated request. */
export function disableWebhookEndpoint({ log }: { log: EventLog }): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const reference = readEndpointReference(ctx);
    const { state, statePosition } = await disableOwnEndpoint(log, reference, toCommandContext(ctx.state));
    ctx.state.logPosition = statePosition;
    ctx.body = { ok: true, endpoint: toEndpointDetail(requireOwnEndpoint(state, reference.owner)) };
  };
}
