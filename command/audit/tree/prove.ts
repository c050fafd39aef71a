import { readEventAt } from "../../../shared/eventstore/read-log.ts";
import { type AuditIndex, IndexDamagedError } from "../index/audit-index.ts";
import type { IndexedLog } from "../index/read-rows.ts";
import { type AuditEvent, toAuditEvent } from "../log/audit-event.ts";
import { toLeaf } from "./leaves.ts";
import { computeConsistentRoots, computeRootOfLeaf, readConsistencyPath, readLeafPath } from "./merkle-tree.ts";
import { CONSISTENCY_PROOF_FORMAT, INCLUSION_PROOF_FORMAT } from "./proof.ts";
import { createChangedLogError, TreeHeadError } from "./published-heads.ts";
import type { SignedTreeHead, TreeHead } from "./tree-head.ts";

/**
 * Waits until the index covers the log, finds a leaf in the index, and reads its event from the log. Returns undefined
 * if the index or the log does not contain the event. Throws the errors of {@link AuditIndex.awaitLogEnd}.
 */
export async function findLeafEvent(
  { client, index }: IndexedLog,
  search: Parameters<AuditIndex["findLeaf"]>[0],
): Promise<{ event: AuditEvent; number: number } | undefined> {
  await index.awaitLogEnd(client);
  const leaf = await index.findLeaf(search);
  const storedEvent = leaf && (await readEventAt(client, leaf.position));
  return storedEvent && { event: toAuditEvent(storedEvent, leaf.position), number: leaf.number };
}

/**
 * Creates the proof that an event is in the tree of a head. Reads the hashes from the index.
 *
 * @throws {TreeHeadError} if the tree of the index does not match the head
 */
export async function proveInclusion(
  index: AuditIndex,
  { event: auditEvent, number }: { event: AuditEvent; number: number },
  head: SignedTreeHead,
) {
  const { size, root } = head.treeHead;
  const { event, hash } = toLeaf(auditEvent);
  const path = await readPath(head.treeHead, () => readLeafPath(index.readHashes, number, size));
  if (computeRootOfLeaf(hash, number, size, path)?.toString("hex") !== root) throw createChangedLogError(head.treeHead);
  return { format: INCLUSION_PROOF_FORMAT, event, index: number, path: toHex(path), head };
}

/**
 * Creates the proof that the tree of a later head starts with the leaves of an earlier head, in the same order.
 *
 * @throws {TreeHeadError} if the tree of the index does not match both heads, or the heads belong to different trees
 */
export async function proveConsistency(index: AuditIndex, from: SignedTreeHead, to: SignedTreeHead) {
  const [fromHead, toHead] = [from.treeHead, to.treeHead];
  if (fromHead.treeId !== toHead.treeId) throw new TreeHeadError("the tree heads belong to different trees");
  if (fromHead.size > toHead.size) throw new TreeHeadError("the first tree head is later than the second");
  const path = await readPath(toHead, () => readConsistencyPath(index.readHashes, fromHead.size, toHead.size));
  const roots = computeConsistentRoots(fromHead.size, Buffer.from(fromHead.root, "hex"), toHead.size, path);
  if (roots?.fromRoot.toString("hex") !== fromHead.root || roots.toRoot.toString("hex") !== toHead.root)
    throw createChangedLogError(toHead);
  return { format: CONSISTENCY_PROOF_FORMAT, from, to, path: toHex(path) };
}

/** Reads a path. Throws {@link TreeHeadError} if the index lacks its hashes, because a shorter log replaced the log. */
async function readPath(head: TreeHead, read: () => Promise<Buffer[]>): Promise<Buffer[]> {
  try {
    return await read();
  } catch (error) {
    if (error instanceof IndexDamagedError) throw createChangedLogError(head);
    throw error;
  }
}

const toHex = (path: readonly Buffer[]) => path.map((hash) => hash.toString("hex"));
