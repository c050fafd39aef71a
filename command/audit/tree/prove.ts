import type { AuditEvent } from "../log/audit-event.ts";
import type { ScanOptions } from "../log/scan.ts";
import { type Leaf, type LeafEvent, readLeaves, toLeaf } from "./leaves.ts";
import { computeConsistentRoots, computeRootOfLeaf, GrowingTree } from "./merkle-tree.ts";
import {
  CONSISTENCY_PROOF_FORMAT,
  type ConsistencyProof,
  INCLUSION_PROOF_FORMAT,
  type InclusionProof,
} from "./proof.ts";
import { createChangedLogError, TreeHeadError } from "./published-heads.ts";
import { TiledTree, TileError, toTreeFolder } from "./tiled-tree.ts";
import type { SignedTreeHead, TreeHead } from "./tree-head.ts";

export interface ProveOptions extends Pick<ScanOptions, "client" | "signal" | "onProgress"> {
  /** Directory with the hash tiles; undefined to read the log. */
  tilesDirectory?: string | undefined;
  /** Receives the reason in one line if the tiles are damaged, before the log is read instead. */
  onTileProblem?(problem: string): void;
}

/**
 * Proves that an event of the log is in the tree of a head. Reads tiles if they contain the tree; otherwise reads the log.
 *
 * @throws {TreeHeadError} if the log does not contain the events of the head
 * @throws {LogUnavailableError}
 */
export async function proveInclusionOf(
  auditEvent: AuditEvent,
  head: SignedTreeHead,
  options: ProveOptions,
): Promise<InclusionProof | undefined> {
  const { event, hash } = toLeaf(auditEvent);
  const { size, logPosition } = head.treeHead;
  const isCovered = BigInt(event.position) <= BigInt(logPosition);
  let foundIndex = 0;
  const path = !isCovered
    ? undefined
    : await readPath(head.treeHead, options, async (tree) => {
        const index = await tree.findLeaf(hash, BigInt(event.position));
        if (index === undefined || index >= size) return undefined;
        foundIndex = index;
        const path = await tree.readLeafPath(index, size);
        return computeRootOfLeaf(hash, index, size, path)?.toString("hex") === head.treeHead.root ? path : undefined;
      });
  return path
    ? { format: INCLUSION_PROOF_FORMAT, event, index: foundIndex, path, head }
    : proveInclusion(({ position }) => position === event.position, head, options);
}

/**
 * Reads a path from the tiles of a tree.
 *
 * @param readVerifiedPath returns the path; undefined if the path does not lead to the signed roots
 * @returns undefined if the log must be read instead
 */
async function readPath(
  { treeId, size }: TreeHead,
  { tilesDirectory, onTileProblem }: ProveOptions,
  readVerifiedPath: (tree: TiledTree) => Promise<Buffer[] | undefined>,
): Promise<string[] | undefined> {
  if (tilesDirectory === undefined) return undefined;
  const folder = toTreeFolder(tilesDirectory, treeId);
  try {
    const tree = await TiledTree.open(folder);
    if (!tree || tree.size < size) return undefined;
    const path = await readVerifiedPath(tree);
    if (path) return path.map((hash) => hash.toString("hex"));
    throw new TileError("their hashes do not lead to the signed root");
  } catch (error) {
    if (!(error instanceof TileError)) throw error;
    onTileProblem?.(
      `the tiles in ${folder} are damaged or belong to another log, so the log is read: ${error.message}. To rebuild them, delete the folder.`,
    );
    return undefined;
  }
}

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
 * Proves that the tree of a later head starts with the leaves of an earlier head, unchanged and in their order. Reads
 * tiles if they contain the tree; otherwise reads the log once and keeps only hashes of its right edge.
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
  const path = await readPath(to.treeHead, options, async (tiledTree) => {
    const [fromSize, toSize] = [from.treeHead.size, to.treeHead.size];
    const path = await tiledTree.readConsistencyPath(fromSize, toSize);
    const roots = computeConsistentRoots(fromSize, Buffer.from(from.treeHead.root, "hex"), toSize, path);
    const isVerified =
      roots?.fromRoot.toString("hex") === from.treeHead.root && roots.toRoot.toString("hex") === to.treeHead.root;
    return isVerified ? path : undefined;
  });
  if (path) return { format: CONSISTENCY_PROOF_FORMAT, from, to, path };
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
  if (tree.size !== size || treeRoot.toString("hex") !== root) throw createChangedLogError({ size, at });
  return path.map((hash) => hash.toString("hex"));
}
