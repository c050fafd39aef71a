import type Koa from "koa";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { WebhookEventType } from "../../shared/domain/events/partner.ts";
import { applicationAggregate } from "../../shared/domain/partner/application.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { webhookEndpointRequest } from "../../shared/partner-api/request-bodies.ts";
import { checkDestination, type SafeDestination, UnsafeDestinationError } from "../../shared/webhooks/destination.ts";
import { loadAggregate } from "../handling/handle.ts";
import { registerEndpoint } from "../operations/webhook-endpoint-operations.ts";
import { toErrorDetails } from "./errors.ts";
import { toCommandContext, toEndpointOwner, toEndpointRecord, type WriteState } from "./request-context.ts";

/** POST /webhook-endpoints: returns 201 with the signing secret, which is shown only once. */
export function createWebhookEndpoint(dependencies: {
  log: EventLog;
  secretBox: SecretBox;
  allowsLoopback: boolean;
}): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const { url, events } = readBody(ctx.request.body);
    await requireApprovedOrigin(dependencies.log, url, ctx.state);
    const destination = await requireSafeDestination(url, dependencies.allowsLoopback);
    const input = { owner: toEndpointOwner(ctx.state), url: destination.url.href, events };
    const context = toCommandContext(ctx.state);
    const { endpoint, secret, statePosition } = await registerEndpoint(dependencies, input, context);
    ctx.state.logPosition = statePosition;
    ctx.status = 201;
    ctx.body = { ok: true, endpoint: toEndpointRecord(endpoint), secret };
  };
}

function readBody(body: unknown): { url: string; events: WebhookEventType[] } {
  const parseResult = webhookEndpointRequest.safeParse(body);
  if (!parseResult.success) {
    const details = toErrorDetails(parseResult.error);
    // If only the URL is invalid, the response has a more specific error code.
    const code = details.every(({ path }) => path === "url") ? "invalid_destination" : "validation_failed";
    throw new ApiError(400, code, { details });
  }
  if (!URL.canParse(parseResult.data.url)) throw createUrlError("invalid_destination", "must be a URL");
  return parseResult.data;
}

/** Requires that the operator has approved the origin of the URL. The sandbox needs no approval. */
async function requireApprovedOrigin(log: EventLog, url: string, state: ClinicState): Promise<void> {
  if (state.environment !== "production") return;
  const { state: application } = await loadAggregate(log, applicationAggregate, state.applicationId);
  if (application?.webhookOrigins.includes(new URL(url).origin)) return;
  throw createUrlError("destination_not_approved", "has an origin that the operator has not approved");
}

/** @throws {ApiError} 400 `invalid_destination` or `unsafe_destination` */
async function requireSafeDestination(url: string, allowsLoopback: boolean): Promise<SafeDestination> {
  try {
    return await checkDestination(url, { allowsLoopback });
  } catch (error) {
    if (!(error instanceof UnsafeDestinationError)) throw error;
    const code = error.code === "malformed_url" ? "invalid_destination" : "unsafe_destination";
    throw createUrlError(code, error.message, error);
  }
}

function createUrlError(code: string, message: string, cause?: unknown): ApiError {
  return new ApiError(400, code, { details: [{ path: "url", message }], cause });
}
