import type Koa from "koa";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { rotateSecret } from "../operations/webhook-endpoint-operations.ts";
import { endpointOf, toCommandContext, toEndpointRecord, type WriteState } from "./request-context.ts";

/** POST /webhook-endpoints/{endpointId}/rotate-secret: 200 with the new secret, which is shown only once. */
export function rotateWebhookSecret(dependencies: {
  log: EventLog;
  secretBox: SecretBox;
}): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const input = endpointOf(ctx);
    const { endpoint, secret, seen } = await rotateSecret(dependencies, input, toCommandContext(ctx.state));
    ctx.state.logPosition = seen;
    ctx.body = { ok: true, endpoint: toEndpointRecord(endpoint), secret };
  };
}
