import { type Aggregate, type Decision, defineAggregate } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import type { DataOf } from "../events/category.ts";
import { type ReplayOutcome, type WebhookReplayEvent, webhookReplayStreams } from "../events/partner.ts";
import type { Instant } from "../time/rfc3339.ts";
import { type Endpoint, requireActiveEndpoint } from "./webhook-endpoint.ts";

type ReplayRequest = DataOf<WebhookReplayEvent, "WebhookReplayRequested">;

/** State of a replay of one or several deliveries. */
export interface Replay extends Omit<ReplayRequest, "replayId"> {
  id: string;
  requestedAt: Instant;
  /** Null until the replay has ended. */
  outcome: ReplayOutcome | null;
}

export const replayAggregate: Aggregate<typeof webhookReplayStreams, Replay> = defineAggregate(
  webhookReplayStreams,
  {
    WebhookReplayRequested: ({ replayId: id, ...request }, _, requestedAt) => ({
      ...{ id, ...request, requestedAt },
      outcome: null,
    }),
  },
  { WebhookReplayCompleted: ({ outcome }) => ({ outcome }) },
);

/**
 * Requests a replay of one delivery. Returns no event if the replay with this id has already ended. The caller then
 * tries the next id.
 *
 * @throws {DomainError} `delivery_not_replayable` if the replay was requested before, and has not ended
 */
export function replayDelivery(request: ReplayRequest): Decision<Replay, WebhookReplayEvent> {
  return (state) => {
    if (!state) return [{ type: "WebhookReplayRequested", data: request }];
    if (state.outcome !== null) return [];
    throw createNotReplayableError();
  };
}

/** Creates the error for a delivery that is unknown, already waits for a replay, or is neither failed nor skipped. */
export function createNotReplayableError(): DomainError {
  return new DomainError("delivery_not_replayable", "only a failed or skipped delivery can be replayed");
}

/**
 * Requests a replay of several deliveries of an active endpoint. Repeating the request changes nothing, even after the
 * endpoint was disabled.
 *
 * @throws {DomainError} `idempotency_conflict`, `webhook_endpoint_disabled`, `webhook_endpoint_revoked`
 */
export function requestReplay(request: ReplayRequest, endpoint: Endpoint): Decision<Replay, WebhookReplayEvent> {
  return (state) => {
    if (!state) {
      requireActiveEndpoint(endpoint);
      return [{ type: "WebhookReplayRequested", data: request }];
    }
    if (state.requestHash === request.requestHash) return [];
    throw new DomainError("idempotency_conflict", "the idempotency key was already used for a different request");
  };
}
