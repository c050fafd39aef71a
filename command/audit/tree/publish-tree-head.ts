import { randomUUID } from "node:crypto";
import { formatCommandLine } from "../../../shared/command-line/format-command-line.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { type EventLog, LogUnavailableError, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
import { pause } from "../../../shared/runtime/backoff.ts";
import { isPostgresUnavailable } from "../../../shared/runtime/failures.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { ServerUnavailableError } from "../../../shared/runtime/run-service.ts";
import { type CommandContext, toMetadata } from "../../handling/handle.ts";
import type { AuditSigner } from "../export/signing.ts";
import { IndexDamagedError } from "../index/audit-index.ts";
import { type CompareOptions, compareIndex } from "../index/compare-index.ts";
import { readIndexCheckpoint } from "../index/index-store.ts";
import {
  readLastHead,
  requirePublishedTree,
  requireSignedHead,
  requireTree,
  TREE_HEAD_STREAM,
  TreeHeadError,
} from "./published-heads.ts";
import { type SignedTreeHead, signTreeHead } from "./tree-head.ts";

export interface PublishOptions extends CompareOptions {
  log: EventLog;
  signer: AuditSigner;
  context: CommandContext;
  /** If true, a new tree starts at the beginning of the log, for example after the log was copied. */
  isNewTree?: boolean;
}

interface Publication {
  /** The last published tree head; undefined if there is none. */
  head: SignedTreeHead | undefined;
  /** True if this call published the head; false if there was nothing to publish, or the signal aborted first. */
  isNew: boolean;
}

/**
 * Signs and appends a head of the tree over all events of the log. Publishes nothing if there are no new events except
 * tree heads. First compares the new rows of the index with the log, so that the head never covers a damaged row.
 *
 * @throws {IndexDamagedError} if the index differs from the log
 * @throws {DifferentLogError}
 * @throws {IndexBehindError}
 * @throws {TreeHeadError} if the last tree head is not signed with one of the service's keys, or belongs to another log
 * @throws {LogUnavailableError}
 */
export async function publishTreeHead(options: PublishOptions): Promise<Publication> {
  const { log, client, index, signer, context, signal, isNewTree = false } = options;
  const { lastHead, lastRevision } = await readLastHead(client);
  const head = lastHead && !isNewTree ? await requireSignedHead(lastHead.data, signer.trustedKeys) : undefined;
  await index.awaitLogEnd(client);
  const compared = await compareIndex(options);
  if (!compared || signal.aborted) return { head, isNew: false };
  const { leafCount: size, leafPosition, root } = compared;
  if (head) await requireTree(index, head.treeHead, size, formatCommandLine("audit tree-head --new-tree"));
  if (!(await index.hasLeafOutside(TREE_HEAD_STREAM, head?.treeHead.size ?? 0))) return { head, isNew: false };
  const tree = { treeId: head?.treeHead.treeId ?? randomUUID(), size };
  const state = { root: root.toString("hex"), logPosition: String(leafPosition), at: toInstant(context.now) };
  const newHead = await signTreeHead(signer, { ...tree, ...state });
  const event = { type: "TreeHeadPublished", data: { ...tree, signature: newHead.signature } } as const;
  try {
    await log.append(TREE_HEAD_STREAM, lastRevision, [{ id: randomUUID(), event, metadata: toMetadata(context) }]);
    return { head: newHead, isNew: true };
  } catch (error) {
    // Another process has published a tree head in the meantime.
    if (!(error instanceof WrongExpectedRevisionError)) throw error;
    return publishTreeHead(options);
  }
}

/**
 * Compares the whole index with the log. Then compares the index's tree with each published head of the current tree.
 *
 * @returns position and number of leaves that were compared; undefined if the signal aborted first
 * @throws {IndexDamagedError} at the first difference
 * @throws {DifferentLogError}
 * @throws {IndexBehindError}
 * @throws {TreeHeadError} if the tree does not match a published head
 * @throws {LogUnavailableError}
 */
export async function verifyIndex(
  options: CompareOptions & Pick<PublishOptions, "signer">,
): Promise<{ position: bigint; leafCount: number } | undefined> {
  const { client, index, pool } = options;
  await index.awaitLogEnd(client);
  const compared = await compareIndex(options, true);
  if (!compared) return undefined;
  await requirePublishedTree(options, compared);
  await pool.query("UPDATE audit.checkpoint SET verified_at = now()");
  return compared;
}

interface PublisherOptions extends Omit<PublishOptions, "context" | "signal" | "isNewTree" | "onProgress"> {
  logger: Logger;
  intervalMs: number;
  countOutcome(outcome: PublicationOutcome): void;
}

/**
 * Outcomes of an attempt to publish a tree head. `unchanged`: the log has no new events except tree heads. `different`:
 * the log, the index and the published tree heads differ. The verification of the index counts only its failures.
 */
export const PUBLICATION_OUTCOMES = ["published", "unchanged", "failed", "different"] as const;
export type PublicationOutcome = (typeof PUBLICATION_OUTCOMES)[number];

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
    if (publishedAt + options.intervalMs <= Date.now() && (await publishIfDue(options, signal)))
      publishedAt = Date.now();
  }
}

const VERIFICATION_INTERVAL_MS = 86_400_000;

/** Interval at which each process checks whether the daily verification is due. A failed verification remains due. */
const CHECK_DUE_INTERVAL_MS = 3_600_000;

/** Time after the start of a process in which the index can first cover the log. */
const FIRST_CHECK_DELAY_MS = 10_000;

/** Verifies the whole index once a day, in one of the processes, until the signal aborts. */
export async function runIndexVerification(options: PublisherOptions, signal: AbortSignal): Promise<void> {
  for (let pauseMs = FIRST_CHECK_DELAY_MS; ; pauseMs = CHECK_DUE_INTERVAL_MS) {
    await pause(pauseMs, signal);
    if (signal.aborted) return;
    await runJob("audit index not verified", options, signal, async () => {
      const { verifiedAt } = await readIndexCheckpoint(options.pool);
      if ((verifiedAt ?? 0) + VERIFICATION_INTERVAL_MS > Date.now()) return false;
      const verified = await verifyIndex({ ...options, signal });
      if (verified) options.logger.info({ position: String(verified.position) }, "the audit index equals the log");
      return true;
    });
  }
}

/**
 * Publishes a tree head if it is due.
 *
 * @returns true if the last published tree head now covers the log
 */
function publishIfDue(options: PublisherOptions, signal: AbortSignal): Promise<boolean> {
  const { client, logger, intervalMs, countOutcome } = options;
  return runJob("no tree head published", options, signal, async () => {
    const { lastHead } = await readLastHead(client);
    if (lastHead && Date.parse(lastHead.metadata.occurredAt) + intervalMs > Date.now()) return false;
    const { head, isNew } = await publishTreeHead({ ...options, signal, context: createContext() });
    if (signal.aborted) return false;
    countOutcome(isNew ? "published" : "unchanged");
    if (isNew) logger.info({ treeHead: head?.treeHead }, "tree head published");
    return true;
  });
}

/** Runs a job. If the job fails, counts the failure, logs the error with `message`, and returns false. */
async function runJob(
  message: string,
  { logger, countOutcome }: PublisherOptions,
  signal: AbortSignal,
  run: () => Promise<boolean>,
): Promise<boolean> {
  try {
    return await run();
  } catch (error) {
    if (signal.aborted) return false;
    countOutcome(error instanceof IndexDamagedError || error instanceof TreeHeadError ? "different" : "failed");
    const isTemporary =
      error instanceof LogUnavailableError || error instanceof ServerUnavailableError || isPostgresUnavailable(error);
    if (isTemporary) logger.warn({ error }, `${message}: the event log or the audit index is unavailable`);
    else logger.error({ error }, message);
    return false;
  }
}

function createContext(): CommandContext {
  const correlationId = randomUUID();
  const ids = { correlationId, causationId: correlationId };
  const actor = { type: "system", id: "audit" } as const;
  return { actor, clinicId: null, environment: null, ...ids, now: Date.now() };
}
