import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { formatCommandLine } from "../../../shared/command-line/format-command-line.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { type EventLog, LogUnavailableError, WrongExpectedRevisionError } from "../../../shared/eventstore/log.ts";
import { readEventAt, readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { pause } from "../../../shared/runtime/backoff.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { type CommandContext, toMetadata } from "../../handling/handle.ts";
import type { AuditSigner } from "../export/signing.ts";
import type { ScanOptions } from "../log/scan.ts";
import { type Leaf, readLeaves } from "./leaves.ts";
import { GrowingTree } from "./merkle-tree.ts";
import {
  type PublishedHead,
  readLastHead,
  requireSignedHead,
  TREE_HEAD_STREAM,
  TreeHeadError,
} from "./published-heads.ts";
import { type SignedTreeHead, signTreeHead } from "./tree-head.ts";

export interface PublishOptions extends Pick<ScanOptions, "client" | "signal" | "onProgress"> {
  log: EventLog;
  signer: AuditSigner;
  context: CommandContext;
  /** If true, a new tree starts at the beginning of the log, for example after the log was copied. */
  isNewTree?: boolean;
  /** Maximum number of leaves to add. An interrupted publication loses at most the work for this number of leaves. */
  maxNewLeaves?: number;
}

interface Publication {
  /** The tree head that was published last; undefined if the log has no events. */
  head: SignedTreeHead | undefined;
  /** True if this call has published the head. If false, the tree has no new leaf except tree heads. */
  isNew: boolean;
  /** True if the head covers all events that the log contained when the call started, except tree heads. */
  isComplete: boolean;
}

const MAX_NEW_LEAVES = 500_000;

/**
 * Adds the events since the last published tree head to the tree, then signs and appends the new tree head. If the log
 * contains no new event except tree heads, publishes nothing. Reads only the new events, because the last published tree
 * head contains the peaks of the tree.
 *
 * @throws {TreeHeadError} if the last tree head is not the service's own, or belongs to another log
 * @throws {LogUnavailableError}
 */
export async function publishTreeHead(options: PublishOptions): Promise<Publication> {
  const { log, client, signer, context, isNewTree = false } = options;
  const { lastHead, lastRevision } = await readLastHead(client);
  const start = lastHead && !isNewTree ? await resumeTree(client, signer, lastHead) : startTree();
  const { lastLeaf, isComplete } = await addNewLeaves(start, options);
  if (!lastLeaf) return { head: start.head, isNew: false, isComplete };
  const { tree, treeId } = start;
  const { position: logPosition, id: lastEventId } = lastLeaf.event;
  const root = tree.computeRoot().root.toString("hex");
  const fields = { treeId, size: tree.size, logPosition };
  const head = await signTreeHead(signer, { ...fields, root, at: toInstant(context.now) });
  const peaks = tree.peakHashes.map((hash) => hash.toString("hex"));
  const data = { ...fields, lastEventId, peaks, signature: head.signature };
  const event = { type: "TreeHeadPublished", data } as const;
  const newEvent = { id: randomUUID(), event, metadata: toMetadata(context) };
  try {
    await log.append(TREE_HEAD_STREAM, lastRevision, [newEvent]);
    return { head, isNew: true, isComplete };
  } catch (error) {
    // Another process has published a tree head in the meantime.
    if (!(error instanceof WrongExpectedRevisionError)) throw error;
    return publishTreeHead({ ...options, isNewTree: false });
  }
}

interface TreeState {
  tree: GrowingTree;
  treeId: string;
  /** Log position of the last leaf; undefined if the tree has no leaves. */
  position: bigint | undefined;
  head: SignedTreeHead | undefined;
}

function startTree(): TreeState {
  return { tree: new GrowingTree(), treeId: randomUUID(), position: undefined, head: undefined };
}

/** Returns the tree of a published head, after checking its signature, and that the log has the event of its last leaf. */
async function resumeTree(
  client: EventStoreDBClient,
  signer: AuditSigner,
  { data }: PublishedHead,
): Promise<TreeState> {
  const head = await requireSignedHead(data, signer.getTrustedKey);
  const { treeId, size, peaks, lastEventId } = data;
  const tree = new GrowingTree(
    size,
    peaks.map((peak) => Buffer.from(peak, "hex")),
  );
  if (tree.computeRoot().root.toString("hex") !== head.treeHead.root)
    throw new TreeHeadError(
      "the event with the last tree head was altered: its peaks do not have the signed root hash",
    );
  const position = BigInt(data.logPosition);
  const lastEvent = await readEventAt(client, position);
  if (lastEvent?.id !== lastEventId) {
    const command = formatCommandLine("audit tree-head --new-tree");
    throw new TreeHeadError(
      `the last tree head belongs to a different event log: this log does not contain event ${lastEventId} at position ${position}. If the log was copied, start a new tree with \`${command}\`.`,
    );
  }
  return { tree, treeId, position, head };
}

/**
 * Adds the leaves after the position of the tree.
 *
 * @returns the last added leaf; undefined if the log has no events except tree heads, or if the signal has aborted
 */
async function addNewLeaves(
  { tree, position: startAfter }: TreeState,
  { client, signal, onProgress, maxNewLeaves = MAX_NEW_LEAVES }: PublishOptions,
): Promise<{ lastLeaf: Leaf | undefined; isComplete: boolean }> {
  const endPosition = await readLogEnd(client);
  const maxSize = tree.size + maxNewLeaves;
  let lastLeaf: Leaf | undefined;
  let hasNews = false;
  for await (const leaf of readLeaves({ client, startAfter, endPosition, signal, onProgress })) {
    tree.append(leaf.hash);
    lastLeaf = leaf;
    hasNews ||= leaf.event.stream !== TREE_HEAD_STREAM;
    if (tree.size >= maxSize && hasNews) return { lastLeaf, isComplete: false };
  }
  return { lastLeaf: hasNews && !signal.aborted ? lastLeaf : undefined, isComplete: !signal.aborted };
}

interface PublisherOptions {
  log: EventLog;
  client: EventStoreDBClient;
  signer: AuditSigner;
  logger: Logger;
  intervalMs: number;
  countOutcome(outcome: PublicationOutcome): void;
}

/** Outcomes of an attempt to publish a tree head. Without new events except tree heads, the tree head is unchanged. */
export const PUBLICATION_OUTCOMES = ["published", "unchanged", "failed"] as const;
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
  const { client, logger, intervalMs, countOutcome } = options;
  try {
    const { lastHead } = await readLastHead(client);
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
