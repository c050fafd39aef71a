import type Koa from "koa";
import { ownEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { revokeEndpoint } from "../operations/endpoint-operations.ts";
import { toCommandContext } from "./command-context.ts";
import { endpointOf, toEndpointRecord } from "./endpoint-of-request.ts";

/** DELETE /webhook-endpoints/{endpointId}: 200, the second time too. */
export function revokeWebhookEndpoint({ log }: { log: EventLog }): Koa.Middleware<ClinicState> {
  return async (ctx) => {
    const input = endpointOf(ctx);
    const { state, seen } = await revokeEndpoint(log, input, toCommandContext(ctx.state));
    ctx.state.position = seen;
    ctx.body = { ok: true, endpoint: toEndpointRecord(ownEndpoint(state, input.owner)) };
  };
}
