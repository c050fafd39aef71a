import type Koa from "koa";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { rotateSecret } from "../operations/endpoint-operations.ts";
import { toCommandContext } from "./command-context.ts";
import { endpointOf, toEndpointRecord } from "./endpoint-of-request.ts";

/** POST /webhook-endpoints/{endpointId}/rotate-secret: 200 with the new secret, which is never shown again. */
export function rotateWebhookSecret(using: {
  log: EventLog;
  secretBox: SecretBox;
}): Koa.Middleware<ClinicState> {
  return async (ctx) => {
    const input = endpointOf(ctx);
    const { endpoint, secret, seen } = await rotateSecret(using, input, toCommandContext(ctx.state));
    ctx.state.position = seen;
    ctx.body = { ok: true, endpoint: toEndpointRecord(endpoint), secret };
  };
}
