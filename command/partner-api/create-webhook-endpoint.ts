import type Koa from "koa";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { webhookEndpointRequest } from "../../shared/partner-api/request-bodies.ts";
import { registerEndpoint } from "../operations/webhook-endpoint-operations.ts";
import { checkEndpointUrl } from "./check-endpoint-url.ts";
import { parseEndpointBody } from "./parse-endpoint-body.ts";
import { toCommandContext, toEndpointOwner, toEndpointRecord, type WriteState } from "./request-context.ts";

/** POST /webhook-endpoints: returns 201 with the signing secret, which is shown only once. */
export function createWebhookEndpoint(dependencies: {
  log: EventLog;
  secretBox: SecretBox;
  allowsLoopback: boolean;
}): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const { url: urlText, events } = parseEndpointBody(webhookEndpointRequest, ctx.request.body);
    const url = await checkEndpointUrl(dependencies, urlText, ctx.state);
    const input = { owner: toEndpointOwner(ctx.state), url, events };
    const context = toCommandContext(ctx.state);
    const { endpoint, secret, statePosition } = await registerEndpoint(dependencies, input, context);
    ctx.state.logPosition = statePosition;
    ctx.status = 201;
    ctx.body = { ok: true, endpoint: toEndpointRecord(endpoint), secret };
  };
}
