import { compareIndex } from "../index/compare-index.ts";
import { readStreamEvents } from "../log/read-stream.ts";
import type { PublishOptions } from "./publish-tree-head.ts";
import { readLastHead, requireSignedHead, requireTree, TREE_HEAD_STREAM } from "./published-heads.ts";

type VerifyOptions = Omit<PublishOptions, "log" | "context" | "isNewTree">;

/**
 * Compares the whole index with the log, and its tree with each published head of the current tree.
 *
 * @returns position and number of leaves that were compared; undefined if the signal aborted first
 * @throws {IndexDamagedError} at the first difference
 * @throws {DifferentLogError}
 * @throws {IndexBehindError}
 * @throws {TreeHeadError} if the tree does not match a published head
 * @throws {LogUnavailableError}
 */
export async function verifyIndex(
  options: VerifyOptions,
): Promise<{ position: bigint; leafCount: number } | undefined> {
  const { client, index } = options;
  await index.awaitLogEnd(client);
  const compared = await compareIndex(options, true);
  if (compared) await requirePublishedTree(options, compared);
  return compared;
}

/**
 * Requires that the tree of an index is that of each head of the current tree in the part of the log that the index
 * covers.
 *
 * @param newTreeCommand command line that ignores the published heads
 * @throws {TreeHeadError}
 * @throws {LogUnavailableError}
 */
export async function requirePublishedTree(
  { client, index, signer }: Pick<VerifyOptions, "client" | "index" | "signer">,
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
