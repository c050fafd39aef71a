import { compareIndex } from "../index/compare-index.ts";
import { readStreamEvents } from "../log/read-stream.ts";
import { computeRoot } from "./merkle-tree.ts";
import type { PublishOptions } from "./publish-tree-head.ts";
import { createChangedLogError, readLastHead, requireSignedHead, TREE_HEAD_STREAM } from "./published-heads.ts";

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
  const { client, index, signer, signal } = options;
  await index.awaitLogEnd(client);
  const { lastHead } = await readLastHead(client);
  const compared = await compareIndex(options, true);
  for await (const { catalogEvent } of readStreamEvents(client, TREE_HEAD_STREAM)) {
    if (signal.aborted) return undefined;
    if (catalogEvent?.type !== "TreeHeadPublished" || catalogEvent.data.treeId !== lastHead?.data.treeId) continue;
    const { treeHead } = await requireSignedHead(catalogEvent.data, signer.trustedKeys);
    const { size, root } = treeHead;
    // A head that was published during the comparison covers later events.
    if (size > (compared?.leafCount ?? 0)) break;
    if ((await computeRoot(index.readHashes, size)).toString("hex") !== root) throw createChangedLogError(treeHead);
  }
  return compared;
}
