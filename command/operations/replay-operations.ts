import { hash } from "node:crypto";
import { deriveWebhookReplayId } from "../../shared/domain/events/ids.ts";
import { type ReplayableStatus, replayableStatus } from "../../shared/domain/events/partner.ts";
import {
  createNotReplayableError,
  decideReplay,
  deliveryAggregate,
} from "../../shared/domain/partner/webhook-delivery.ts";
import { endpointAggregate, requireOwnEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import { decideRequestReplay, type Replay, replayAggregate } from "../../shared/domain/partner/webhook-replay.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { type EventLog, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import type { WebhookReplayRequest } from "../../shared/partner-api/request-bodies.ts";
import { type CommandContext, type CommandResult, handle, loadAggregate } from "../handling/handle.ts";
import { type EndpointReference, toOwnerContext } from "./webhook-endpoint-operations.ts";

/**
 * Requests the replay of a failed or skipped delivery of an active endpoint.
 *
 * @param input.deliveryId undefined if the request has no valid delivery id
 * @throws {DomainError} `delivery_not_replayable`, for example if another replay was requested concurrently
 */
export async function replayDelivery(
  log: EventLog,
  input: EndpointReference & { deliveryId: string | undefined },
  context: CommandContext,
): Promise<void> {
  const { endpointId, owner, deliveryId } = input;
  const { state } = await loadAggregate(log, endpointAggregate, endpointId);
  if (requireOwnEndpoint(state, owner).status !== "active" || deliveryId === undefined)
    throw createNotReplayableError();
  const ownerContext = toOwnerContext(context, owner);
  const decide = decideReplay(endpointId);
  try {
    await handle(log, deliveryAggregate, deliveryId, decide, ownerContext, { onConflict: "throw" });
  } catch (error) {
    throw error instanceof WrongExpectedRevisionError ? createNotReplayableError() : error;
  }
}

const DEFAULT_STATUSES: ReplayableStatus[] = ["failed", "skipped"];

/**
 * Requests the replay of several deliveries of an endpoint. The webhooks role then replays them in batches. A repeated
 * request with the same idempotency key gets the first result.
 *
 * @throws {DomainError} `webhook_endpoint_not_found`, `webhook_endpoint_disabled`, `webhook_endpoint_revoked`,
 *   `idempotency_conflict`
 */
export async function requestReplay(
  log: EventLog,
  input: EndpointReference & { request: WebhookReplayRequest; idempotencyKey: string },
  context: CommandContext,
): Promise<CommandResult<Replay>> {
  const { endpointId, owner, idempotencyKey } = input;
  const { since = null, until, statuses } = input.request;
  const deliveryIds = input.request.deliveryIds ? [...new Set(input.request.deliveryIds)] : null;
  const defaultStatuses = deliveryIds ? replayableStatus.options : DEFAULT_STATUSES;
  const endpoint = requireOwnEndpoint((await loadAggregate(log, endpointAggregate, endpointId)).state, owner);
  const replayId = deriveWebhookReplayId({ ...owner, endpointId, idempotencyKey });
  const request = {
    ...owner,
    replayId,
    endpointId,
    since,
    deliveryIds,
    until: until ?? toInstant(context.now),
    statuses: statuses ? [...new Set(statuses)] : defaultStatuses,
    requestHash: hash("sha256", JSON.stringify([since, until ?? null, statuses ?? null, deliveryIds])),
  };
  return handle(log, replayAggregate, replayId, decideRequestReplay(request, endpoint), context);
}
