import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { type EventLog, LogUnavailableError } from "../../../shared/eventstore/log.ts";
import { pause } from "../../../shared/runtime/backoff.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import type { CommandContext } from "../../handling/handle.ts";
import type { AuditSigner } from "../export/signing.ts";
import { publishTreeHead } from "./publish-tree-head.ts";
import { readLastHead } from "./published-heads.ts";

export interface PublisherOptions {
  log: EventLog;
  client: EventStoreDBClient;
  signer: AuditSigner;
  logger: Logger;
  /** Time from one tree head to the next, in milliseconds. */
  intervalMs: number;
  countOutcome(outcome: PublicationOutcome): void;
}

/** Outcomes of an attempt to publish a tree head. Without new events except tree heads, the tree head is unchanged. */
export const PUBLICATION_OUTCOMES = ["published", "unchanged", "failed"] as const;
export type PublicationOutcome = (typeof PUBLICATION_OUTCOMES)[number];

/** Maximum time between two checks whether a tree head is due. */
const MAX_CHECK_INTERVAL_MS = 60_000;

/**
 * Publishes a tree head whenever the last one is older than the interval and the log has new events, until the signal
 * aborts. The time of the last tree head comes from the log, so restarts and other processes neither delay nor repeat a
 * publication.
 */
export async function runTreeHeadPublisher(options: PublisherOptions, signal: AbortSignal): Promise<void> {
  const checkIntervalMs = Math.min(options.intervalMs, MAX_CHECK_INTERVAL_MS);
  let publishedAt = 0;
  for (;;) {
    await pause(checkIntervalMs, signal);
    if (signal.aborted) return;
    if (publishedAt + options.intervalMs > Date.now()) continue;
    if (await publishIfDue(options, signal)) publishedAt = Date.now();
  }
}

/**
 * Publishes a tree head if it is due. Writes errors to the application log.
 *
 * @returns true if the last published tree head now covers the log
 */
async function publishIfDue(options: PublisherOptions, signal: AbortSignal): Promise<boolean> {
  const { log, logger, intervalMs, countOutcome } = options;
  try {
    const lastHead = await readLastHead(log);
    if (lastHead && Date.parse(lastHead.metadata.occurredAt) + intervalMs > Date.now()) return false;
    for (;;) {
      const { head, isNew, isComplete } = await publishTreeHead({ ...options, signal, context: createContext() });
      if (signal.aborted) return false;
      countOutcome(isNew ? "published" : "unchanged");
      if (isNew) logger.info({ treeHead: head?.treeHead }, "tree head published");
      if (isComplete) return true;
    }
  } catch (error) {
    if (signal.aborted) return false;
    countOutcome("failed");
    if (error instanceof LogUnavailableError) logger.warn({ error }, "no tree head published: the event log failed");
    else logger.error({ error }, "no tree head published");
    return false;
  }
}

function createContext(): CommandContext {
  const correlationId = randomUUID();
  const ids = { correlationId, causationId: correlationId };
  const actor = { type: "system", id: "audit" } as const;
  return { actor, clinicId: null, environment: null, ...ids, now: Date.now() };
}
