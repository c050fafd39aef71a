import type { EventStoreDBClient } from "@eventstore/db-client";
import { type AuditTreeEvent, auditTreeStreams } from "../../../shared/domain/events/audit.ts";
import { toStreamName } from "../../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { EMPTY_STREAM } from "../../../shared/eventstore/log.ts";
import type { Thumbprints } from "../export/verify-export.ts";
import type { AuditIndex } from "../index/audit-index.ts";
import { toRecordedEvent } from "../log/audit-event.ts";
import { readLastEvent, readStreamEvents } from "../log/read-stream.ts";
import { computeRoot } from "./merkle-tree.ts";
import type { PublishOptions } from "./publish-tree-head.ts";
import { readSignedTreeHead, type SignedTreeHead, type TreeHead } from "./tree-head.ts";

export const TREE_HEAD_STREAM = toStreamName(auditTreeStreams, "heads");

export type PublishedHead = RecordedEvent<AuditTreeEvent>;

/** The published tree heads do not match the log or the signing keys. The message describes the difference. */
export class TreeHeadError extends Error {
  override readonly name = "TreeHeadError";
}

export function createChangedLogError({ size, at }: TreeHead, advice = ""): TreeHeadError {
  return new TreeHeadError(
    `the event log does not contain the ${size} events of the tree head of ${at}: it was changed, or it is a different log${advice}`,
  );
}

/**
 * Requires that the tree of the index starts with the leaves of a head.
 *
 * @param leafCount number of leaves of the index
 * @param newTreeCommand command that starts a new tree; the error message recommends it
 * @throws {TreeHeadError}
 */
export async function requireTree(
  { readHashes }: Pick<AuditIndex, "readHashes">,
  head: TreeHead,
  leafCount: number | bigint,
  newTreeCommand?: string,
): Promise<void> {
  if (head.size <= leafCount && (await computeRoot(readHashes, head.size)).toString("hex") === head.root) return;
  const advice = newTreeCommand && `. If the log was copied, start a new tree with \`${newTreeCommand}\`.`;
  throw createChangedLogError(head, advice);
}

/**
 * Requires that the tree of an index matches all published heads of the current tree. Ignores heads after the position
 * that the index covers.
 *
 * @param newTreeCommand command that ignores the published heads; the error message recommends it
 * @throws {TreeHeadError}
 * @throws {LogUnavailableError}
 */
export async function requirePublishedTree(
  { client, index, signer }: Pick<PublishOptions, "client" | "index" | "signer">,
  { position, leafCount }: { position: bigint; leafCount: number | bigint },
  newTreeCommand?: string,
): Promise<void> {
  const { lastHead } = await readLastHead(client);
  for await (const { auditEvent, catalogEvent } of readStreamEvents(client, TREE_HEAD_STREAM)) {
    if (BigInt(auditEvent.position) > position) return;
    if (catalogEvent?.type !== "TreeHeadPublished" || catalogEvent.data.treeId !== lastHead?.data.treeId) continue;
    const { treeHead } = await requireSignedHead(catalogEvent.data, signer.trustedKeys);
    await requireTree(index, treeHead, leafCount, newTreeCommand);
  }
}

/**
 * Reads the last published tree head that this release can read. Skips later heads that are unreadable.
 *
 * @returns `lastHead`: the tree head; undefined if there is none. `lastRevision`: the last revision of the tree-head
 *   stream.
 * @throws {LogUnavailableError}
 */
export async function readLastHead(
  client: EventStoreDBClient,
): Promise<{ lastHead: PublishedHead | undefined; lastRevision: bigint }> {
  let lastRevision: bigint | undefined;
  let maxRevision: bigint | undefined;
  for (;;) {
    const event = await readLastEvent(client, TREE_HEAD_STREAM, maxRevision);
    if (!event) return { lastHead: undefined, lastRevision: lastRevision ?? EMPTY_STREAM };
    maxRevision = BigInt(event.auditEvent.revision) - 1n;
    lastRevision ??= BigInt(event.auditEvent.revision);
    const lastHead = toRecordedEvent(event);
    if (lastHead?.type === "TreeHeadPublished") return { lastHead, lastRevision };
    if (maxRevision < 0n) return { lastHead: undefined, lastRevision };
  }
}

/**
 * Finds a published tree head by its number of leaves. If several heads match, returns the last of them. Returns
 * undefined if there is no such head.
 *
 * @param size number of leaves; undefined for the last published tree head
 * @throws {TreeHeadError} if the tree head is not signed with one of the service's keys
 * @throws {LogUnavailableError}
 */
export async function findPublishedHead(
  client: EventStoreDBClient,
  size: number | undefined,
  trustedKeys: Thumbprints,
): Promise<SignedTreeHead | undefined> {
  let foundData: PublishedHead["data"] | undefined;
  if (size === undefined) foundData = (await readLastHead(client)).lastHead?.data;
  else {
    for await (const { catalogEvent } of readStreamEvents(client, TREE_HEAD_STREAM))
      if (catalogEvent?.type === "TreeHeadPublished" && catalogEvent.data.size === size) foundData = catalogEvent.data;
  }
  return foundData && requireSignedHead(foundData, trustedKeys);
}

export async function requireSignedHead(
  { treeId, size, signature }: PublishedHead["data"],
  trustedKeys: Thumbprints,
): Promise<SignedTreeHead> {
  const signedHead = await readSignedTreeHead(signature, trustedKeys);
  if ("fault" in signedHead)
    throw new TreeHeadError(`the tree head of ${size} events is not verified: ${signedHead.problem}`);
  const { treeHead } = signedHead;
  if (treeHead.treeId !== treeId || treeHead.size !== size)
    throw new TreeHeadError("the event with the tree head was altered");
  return signedHead;
}
