import type Koa from "koa";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { rotateSecret } from "../operations/webhook-endpoint-operations.ts";
import { readEndpointReference, toCommandContext, toEndpointRecord, type WriteState } from "./request-context.ts";

/** POST /webhook-endpoints/{endpointId}/rotate-secret: returns 200 with the new secret, which is shown only once. */
export function rotateWebhookSecret(dependencies: { log: EventLog; secretBox: SecretBox }): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const endpointReference = readEndpointReference(ctx);
    const context = toCommandContext(ctx.state);
    const { endpoint, secret, statePosition } = await rotateSecret(dependencies, endpointReference, context);
    ctx.state.logPosition = statePosition;
    ctx.body = { ok: true, endpoint: toEndpointRecord(endpoint), secret };
  };
}
