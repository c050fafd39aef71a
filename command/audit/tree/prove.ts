import type { ScanOptions } from "../log/scan.ts";
import { type Leaf, type LeafEvent, readLeaves } from "./leaves.ts";
import { GrowingTree } from "./merkle-tree.ts";
import {
  CONSISTENCY_PROOF_FORMAT,
  type ConsistencyProof,
  INCLUSION_PROOF_FORMAT,
  type InclusionProof,
} from "./proof.ts";
import { TreeHeadError } from "./published-heads.ts";
import type { SignedTreeHead, TreeHead } from "./tree-head.ts";

export type ProveOptions = Pick<ScanOptions, "client" | "signal" | "onProgress">;

/**
 * Proves that an event is in the tree of a head. Reads the log once and keeps only hashes of its right edge.
 *
 * @returns undefined if the tree of the head does not contain the event, or if the signal has aborted
 * @throws {TreeHeadError} if the log does not contain the events of the head
 * @throws {LogUnavailableError}
 */
export async function proveInclusion(
  isProvenEvent: (event: LeafEvent) => boolean,
  head: SignedTreeHead,
  options: ProveOptions,
): Promise<InclusionProof | undefined> {
  const tree = new GrowingTree();
  let provenLeaf: { event: LeafEvent; index: number } | undefined;
  await addLeaves(tree, head.treeHead, options, ({ event, hash }) => {
    const isProven = provenLeaf === undefined && isProvenEvent(event);
    if (isProven) provenLeaf = { event, index: tree.size };
    tree.append(hash, isProven);
  });
  if (options.signal.aborted) return undefined;
  const path = requireRoot(tree, head.treeHead);
  return provenLeaf && { format: INCLUSION_PROOF_FORMAT, ...provenLeaf, path, head };
}

/**
 * Proves that the tree of a later head starts with the leaves of an earlier head, unchanged and in their order. Reads the
 * log once and keeps only hashes of its right edge.
 *
 * @returns undefined if the signal has aborted
 * @throws {TreeHeadError} if the log does not contain the events of both heads, or the heads belong to different trees
 * @throws {LogUnavailableError}
 */
export async function proveConsistency(
  from: SignedTreeHead,
  to: SignedTreeHead,
  options: ProveOptions,
): Promise<ConsistencyProof | undefined> {
  if (from.treeHead.treeId !== to.treeHead.treeId) throw new TreeHeadError("the tree heads belong to different trees");
  if (from.treeHead.size > to.treeHead.size) throw new TreeHeadError("the first tree head is later than the second");
  const tree = new GrowingTree();
  await addLeaves(tree, to.treeHead, options, ({ hash }) => {
    tree.append(hash);
    if (tree.size !== from.treeHead.size) return;
    requireRoot(tree, from.treeHead);
    tree.markState();
  });
  if (options.signal.aborted) return undefined;
  return { format: CONSISTENCY_PROOF_FORMAT, from, to, path: requireRoot(tree, to.treeHead) };
}

async function addLeaves(
  tree: GrowingTree,
  { size, logPosition }: TreeHead,
  options: ProveOptions,
  addLeaf: (leaf: Leaf) => void,
): Promise<void> {
  for await (const leaf of readLeaves({ ...options, endPosition: BigInt(logPosition) })) {
    addLeaf(leaf);
    if (tree.size > size) return;
  }
}

/** Checks that the tree is that of a head, and returns the recorded path in hex. */
function requireRoot(tree: GrowingTree, { size, root, at }: TreeHead): string[] {
  const { root: treeRoot, path } = tree.computeRoot();
  if (tree.size !== size || treeRoot.toString("hex") !== root)
    throw new TreeHeadError(
      `the event log does not contain the ${size} events of the tree head of ${at}: it was changed, or it is a different log`,
    );
  return path.map((hash) => hash.toString("hex"));
}
