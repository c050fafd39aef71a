import type { Aggregate, Decision } from "../aggregate.ts";
import { DomainError } from "../domain-error.ts";
import type { DataOf } from "../events/category.ts";
import { type ReplayOutcome, type WebhookReplayEvent, webhookReplayStreams } from "../events/partner.ts";
import type { Instant } from "../time/rfc3339.ts";
import { type Endpoint, requireActiveEndpoint } from "./webhook-endpoint.ts";

type ReplayRequest = DataOf<WebhookReplayEvent, "WebhookReplayRequested">;

/** State of a replay of several deliveries. */
export interface Replay extends Omit<ReplayRequest, "replayId"> {
  id: string;
  requestedAt: Instant;
  /** Null until the replay has ended. */
  outcome: ReplayOutcome | null;
}

export const replayAggregate: Aggregate<typeof webhookReplayStreams, Replay> = {
  category: webhookReplayStreams,
  evolve(state, event) {
    if (event.type === "WebhookReplayCompleted") return state && { ...state, outcome: event.data.outcome };
    const { replayId: id, ...request } = event.data;
    return { id, ...request, requestedAt: event.metadata.occurredAt, outcome: null };
  },
};

/**
 * Requests a replay of several deliveries of an active endpoint. Repeating the request changes nothing, also after the
 * endpoint was disabled.
 *
 * @throws {DomainError} `idempotency_conflict`, `webhook_endpoint_disabled`, `webhook_endpoint_revoked`
 */
export function decideRequestReplay(request: ReplayRequest, endpoint: Endpoint): Decision<Replay, WebhookReplayEvent> {
  return (state) => {
    if (!state) {
      requireActiveEndpoint(endpoint);
      return [{ type: "WebhookReplayRequested", data: request }];
    }
    if (state.requestHash === request.requestHash) return [];
    throw new DomainError("idempotency_conflict", "the idempotency key was already used for a different request");
  };
}
