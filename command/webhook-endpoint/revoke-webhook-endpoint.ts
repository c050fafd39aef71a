import type Koa from "koa";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { toCommandContext } from "../partner/command-context.ts";
import { ownEndpoint } from "./decide-endpoint.ts";
import { toEndpointRecord } from "./endpoint.ts";
import { endpointOf } from "./endpoint-of-request.ts";
import { revokeEndpoint } from "./endpoint-operations.ts";

/** DELETE /webhook-endpoints/{endpointId}: 200, the second time too. */
export function revokeWebhookEndpoint({ log }: { log: EventLog }): Koa.Middleware<ClinicState> {
  return async (ctx) => {
    const input = endpointOf(ctx);
    const { state, seen } = await revokeEndpoint(log, input, toCommandContext(ctx.state));
    ctx.state.position = seen;
    ctx.body = { ok: true, endpoint: toEndpointRecord(ownEndpoint(state, input.owner)) };
  };
}
