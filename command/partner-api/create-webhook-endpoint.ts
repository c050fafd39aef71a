import type Koa from "koa";
import type { SecretBox } from "../../shared/auth/secret-box.ts";
import type { WebhookEventType } from "../../shared/domain/events/partner.ts";
import { applicationAggregate } from "../../shared/domain/partner/application.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { ClinicState } from "../../shared/partner-api/access.ts";
import { createWebhookEndpointRequest } from "../../shared/partner-api/request-bodies.ts";
import {
  checkDestination,
  type SafeDestination,
  UnsafeDestinationError,
} from "../../shared/webhooks/destination.ts";
import { load } from "../handling/handle.ts";
import { registerEndpoint } from "../operations/webhook-endpoint-operations.ts";
import { toErrorDetails } from "./errors.ts";
import { ownerOf, toCommandContext, toEndpointRecord, type WriteState } from "./request-context.ts";

/** POST /webhook-endpoints: 201 with the signing secret, which is shown only once. */
export function createWebhookEndpoint(dependencies: {
  log: EventLog;
  secretBox: SecretBox;
  allowLoopback: boolean;
}): Koa.Middleware<WriteState> {
  return async (ctx) => {
    const { url, events } = readBody(ctx.request.body);
    await requireApprovedOrigin(dependencies.log, url, ctx.state);
    const destination = await safeDestination(url, dependencies.allowLoopback);
    const input = { owner: ownerOf(ctx.state), url: destination.url.href, events };
    const { endpoint, secret, seen } = await registerEndpoint(
      dependencies,
      input,
      toCommandContext(ctx.state),
    );
    ctx.state.logPosition = seen;
    ctx.status = 201;
    ctx.body = { ok: true, endpoint: toEndpointRecord(endpoint), secret };
  };
}

function readBody(body: unknown): { url: string; events: WebhookEventType[] } {
  const result = createWebhookEndpointRequest.safeParse(body);
  if (!result.success) {
    const details = toErrorDetails(result.error);
    // If only the URL is wrong, the error has a specific code.
    const code = details.every(({ path }) => path === "url") ? "invalid_destination" : "validation_failed";
    throw new ApiError(400, code, { details });
  }
  if (!URL.canParse(result.data.url)) throw refusal("invalid_destination", "must be a URL");
  return result.data;
}

/** In production, the operator must have approved the origin of an application's webhooks. */
async function requireApprovedOrigin(log: EventLog, url: string, state: ClinicState): Promise<void> {
  if (state.environment !== "production") return;
  const { state: application } = await load(log, applicationAggregate, state.applicationId);
  if (application?.webhookOrigins.includes(new URL(url).origin)) return;
  throw refusal("destination_not_approved", "has an origin that the operator has not approved");
}

async function safeDestination(url: string, allowLoopback: boolean): Promise<SafeDestination> {
  try {
    return await checkDestination(url, { allowLoopback });
  } catch (error) {
    if (!(error instanceof UnsafeDestinationError)) throw error;
    const code = error.code === "malformed_url" ? "invalid_destination" : "unsafe_destination";
    throw refusal(code, error.message, error);
  }
}

function refusal(code: string, message: string, cause?: unknown): ApiError {
  return new ApiError(400, code, { details: [{ path: "url", message }], cause });
}
