import type { EventStoreDBClient } from "@eventstore/db-client";
import { DomainError } from "../../shared/domain/domain-error.ts";
import {
  activeEndpoint,
  endpointAggregate,
  knownEndpoint,
} from "../../shared/domain/partner/webhook-endpoint.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { type CommandContext, load } from "../handling/handle.ts";
import { replayDelivery } from "./endpoint-operations.ts";
import { type StandingFilter, standingDeliveries } from "./standing-deliveries.ts";

/** How far a recovery is, and in the end what came of it. */
export interface Recovery {
  /** Deliveries that stood failed or skipped when it began. */
  found: number;
  /** Of them, those whose replay it has asked for. */
  requested: number;
  /** Of them, those that could not be replayed when their turn came: somebody else asked, or the endpoint went. */
  left: number;
}

/** Replays asked for at once. */
const WORKERS = 8;

/**
 * Asks for another round of every failed or skipped delivery of an active endpoint, each by the same decision as a
 * partner's own request. What was asked for stays asked for, whenever it ends: the same recovery again takes up what
 * is failed or skipped by then.
 *
 * @param input.dryRun finds and counts them, and asks for nothing
 * @param onProgress called after each
 * @throws {DomainError} `webhook_endpoint_not_found`, `webhook_endpoint_disabled`, `webhook_endpoint_revoked`,
 *   `too_many_deliveries`
 * @throws {LogUnavailable} when the requests under way are over
 */
export async function recoverDeliveries(
  using: { client: EventStoreDBClient; log: EventLog },
  input: StandingFilter & { dryRun: boolean },
  context: CommandContext,
  onProgress: (progress: Recovery) => void,
): Promise<Recovery> {
  const { log, client } = using;
  const { endpointId } = input;
  const { state } = await load(log, endpointAggregate, endpointId);
  const owner = input.dryRun ? knownEndpoint(state) : activeEndpoint(state);
  const ids = await standingDeliveries(client, input);
  const progress = { found: ids.length, requested: 0, left: 0 };
  if (input.dryRun) return progress;
  const waiting = ids.values();
  let broken: { error: unknown } | undefined;
  const work = async () => {
    for (const deliveryId of waiting) {
      if (broken) return;
      try {
        await replayDelivery(log, { endpointId, owner, deliveryId }, context);
        progress.requested += 1;
      } catch (error) {
        if (error instanceof DomainError) progress.left += 1;
        else broken ??= { error };
      }
      onProgress(progress);
    }
  };
  await Promise.all(Array.from({ length: WORKERS }, work));
  if (broken) throw broken.error;
  return progress;
}
