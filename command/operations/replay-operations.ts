import { hash } from "node:crypto";
import { deriveDeliveryReplayId, deriveWebhookReplayId } from "../../shared/domain/events/ids.ts";
import { type ReplayableStatus, replayableStatus } from "../../shared/domain/events/partner.ts";
import { endpointAggregate, requireOwnEndpoint } from "../../shared/domain/partner/webhook-endpoint.ts";
import * as replays from "../../shared/domain/partner/webhook-replay.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { type EventLog, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import type { WebhookReplayRequest } from "../../shared/partner-api/request-bodies.ts";
import { type CommandContext, type CommandResult, handle, loadAggregate } from "../handling/handle.ts";
import { type EndpointReference, toOwnerContext } from "./webhook-endpoint-operations.ts";

/**
 * Finds a failed or skipped delivery of an endpoint. Returns undefined if the endpoint has no such delivery, or if the
 * application may not see the delivery's branch or animal.
 *
 * @returns `replayPosition`: log position of the delivery's last replay; null if there was no replay
 */
export type FindReplayableDelivery = (
  reference: EndpointReference,
  deliveryId: string,
) => Promise<{ replayPosition: bigint | null } | undefined>;

const DEFAULT_STATUSES: ReplayableStatus[] = ["failed", "skipped"];

/**
 * Maximum number of successive requests for the same delivery that end without a replay, for example because the
 * endpoint is disabled. Further requests are refused.
 */
const MAX_INEFFECTIVE_REQUESTS = 20;

/**
 * Requests the replay of a failed or skipped delivery of an active endpoint. The webhooks role then replays it.
 *
 * @param input.deliveryId undefined if the request has no valid delivery id
 * @throws {DomainError} `webhook_endpoint_not_found`, `object_deleted`, or `delivery_not_replayable`, for example while
 *   an earlier request waits
 */
export async function replayDelivery(
  dependencies: { log: EventLog; findReplayableDelivery: FindReplayableDelivery },
  input: EndpointReference & { deliveryId: string | undefined },
  context: CommandContext,
): Promise<void> {
  const { log, findReplayableDelivery } = dependencies;
  const { endpointId, owner, deliveryId } = input;
  const { state } = await loadAggregate(log, endpointAggregate, endpointId);
  if (requireOwnEndpoint(state, owner).status !== "active" || deliveryId === undefined)
    throw replays.createNotReplayableError();
  const delivery = await findReplayableDelivery(input, deliveryId);
  if (!delivery) throw replays.createNotReplayableError();
  const selection = {
    deliveryIds: [deliveryId],
    since: null,
    until: toInstant(context.now),
    statuses: DEFAULT_STATUSES,
  };
  const request = { ...owner, endpointId, ...selection, requestHash: hashRequest({ deliveryIds: [deliveryId] }) };
  for (let ordinal = 0; ordinal < MAX_INEFFECTIVE_REQUESTS; ordinal += 1) {
    const replayId = deriveDeliveryReplayId(deliveryId, delivery.replayPosition, ordinal);
    const decide = replays.replayDelivery({ ...request, replayId });
    const ownerContext = toOwnerContext(context, owner);
    try {
      const { events } = await handle(log, replays.replayAggregate, replayId, decide, ownerContext, "throw");
      if (events.length > 0) return;
    } catch (error) {
      throw error instanceof WrongExpectedRevisionError ? replays.createNotReplayableError() : error;
    }
  }
  throw replays.createNotReplayableError();
}

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
): Promise<CommandResult<replays.Replay>> {
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
    requestHash: hashRequest({ ...input.request, deliveryIds }),
  };
  const ownerContext = toOwnerContext(context, owner);
  return handle(log, replays.replayAggregate, replayId, replays.requestReplay(request, endpoint), ownerContext);
}

function hashRequest(request: { [Name in keyof WebhookReplayRequest]: WebhookReplayRequest[Name] | null }): string {
  const { since, until, statuses, deliveryIds } = request;
  return hash("sha256", JSON.stringify([since ?? null, until ?? null, statuses ?? null, deliveryIds ?? null]));
}
