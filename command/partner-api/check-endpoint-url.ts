import { applicationAggregate } from "../../shared/domain/partner/application.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import type { PartnerState } from "../../shared/partner-api/access.ts";
import {
  checkDestination,
  type DestinationOptions,
  type SafeDestination,
  UnsafeDestinationError,
} from "../../shared/webhooks/destination.ts";
import { loadAggregate } from "../handling/handle.ts";

/**
 * Checks that deliveries may be sent to a URL: in production, the operator must have approved the origin, and the
 * destination must be safe.
 *
 * @throws {ApiError} 400 `invalid_destination`, `destination_not_approved` or `unsafe_destination`
 */
export async function checkEndpointUrl(
  { log, ...options }: DestinationOptions & { log: EventLog },
  url: string,
  state: PartnerState,
): Promise<string> {
  if (!URL.canParse(url)) throw createUrlError("invalid_destination", "must be a URL");
  await requireApprovedOrigin(log, url, state);
  const destination = await requireSafeDestination(url, options);
  return destination.url.href;
}

/** Requires that the operator has approved the origin of the URL. The sandbox needs no approval. */
async function requireApprovedOrigin(log: EventLog, url: string, state: PartnerState): Promise<void> {
  if (state.environment !== "production") return;
  const { state: application } = await loadAggregate(log, applicationAggregate, state.applicationId);
  if (application?.webhookOrigins.includes(new URL(url).origin)) return;
  throw createUrlError("destination_not_approved", "has an origin that the operator has not approved");
}

async function requireSafeDestination(url: string, options: DestinationOptions): Promise<SafeDestination> {
  try {
    return await checkDestination(url, options);
  } catch (error) {
    if (!(error instanceof UnsafeDestinationError)) throw error;
    const code = error.code === "malformed_url" ? "invalid_destination" : "unsafe_destination";
    throw createUrlError(code, error.message, error);
  }
}

function createUrlError(code: string, message: string, cause?: unknown): ApiError {
  return new ApiError(400, code, { details: [{ path: "url", message }], cause });
}
