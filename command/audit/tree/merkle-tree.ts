import { createHash } from "node:crypto";

/** Prefixes of the hashed bytes (RFC 6962, section 2.1). They prevent an inner node from being mistaken for a leaf. */
const LEAF_PREFIX = Buffer.from([0x00]);
const NODE_PREFIX = Buffer.from([0x01]);

/** Returns the hash of a leaf: SHA-256 of the byte 00 and the leaf. */
export function hashLeaf(leaf: string | Uint8Array): Buffer {
  return createHash("sha256").update(LEAF_PREFIX).update(leaf).digest();
}

/** Returns the hash of a node: SHA-256 of the byte 01, the hash of the left child and the hash of the right child. */
export function hashNode(left: Uint8Array, right: Uint8Array): Buffer {
  return createHash("sha256").update(NODE_PREFIX).update(left).update(right).digest();
}

/** Returns the root hash of a tree without leaves: SHA-256 of no bytes. */
export function hashEmptyTree(): Buffer {
  return createHash("sha256").digest();
}

/** Number of children of a stored node. A node covers 16 times as many leaves as a node of the level below. */
const NODE_WIDTH = 16;

/**
 * Reads hashes of consecutive complete subtrees with 16^level leaves each.
 *
 * @param first number of the first subtree, counted from 0 at the start of the tree
 */
export type ReadHashes = (level: number, first: number, count: number) => Promise<Buffer[]>;

export interface TreeNode {
  level: number;
  number: number;
  hash: Buffer;
}

/**
 * The right edge of a growing tree. It holds the hashes of each level that no stored node covers yet. These hashes
 * suffice to add leaves and to compute the root.
 */
export class TreeEdge {
  size: number;
  readonly #levels: Buffer[][];

  private constructor(size: number, levels: Buffer[][]) {
    this.size = size;
    this.#levels = levels;
  }

  static async read(readHashes: ReadHashes, size: number): Promise<TreeEdge> {
    const levels: Buffer[][] = [];
    for (let [level, count] = [0, size]; count > 0; [level, count] = [level + 1, Math.floor(count / NODE_WIDTH)]) {
      const width = count % NODE_WIDTH;
      levels.push(width === 0 ? [] : await readHashes(level, count - width, width));
    }
    return new TreeEdge(size, levels);
  }

  /** Adds a leaf. Returns the nodes that the leaf completes, from the lowest level to the highest. */
  append(leafHash: Buffer): TreeNode[] {
    this.size += 1;
    const nodes: TreeNode[] = [];
    for (let [level, hash] = [0, leafHash]; ; level += 1) {
      const hashes = this.#levels[level] ?? [];
      hashes.push(hash);
      this.#levels[level] = hashes.length < NODE_WIDTH ? hashes : [];
      if (hashes.length < NODE_WIDTH) return nodes;
      hash = joinHashes(hashes);
      nodes.push({ level: level + 1, number: this.size / NODE_WIDTH ** (level + 1) - 1, hash });
    }
  }

  computeRoot(): Buffer {
    const peaks = this.#levels.toReversed().flatMap(listPeaks);
    return peaks.length === 0 ? hashEmptyTree() : peaks.reduceRight((right, left) => hashNode(left, right));
  }
}

/** Returns the roots of the largest complete subtrees over up to 15 hashes, from left to right. */
function listPeaks(hashes: readonly Buffer[]): Buffer[] {
  if (hashes.length === 0) return [];
  const width = 2 ** Math.floor(Math.log2(hashes.length));
  return [joinHashes(hashes.slice(0, width)), ...listPeaks(hashes.slice(width))];
}

/** Computes the root hash of a complete subtree from its hashes at one level. Their number must be a power of 2. */
function joinHashes(hashes: readonly Buffer[]): Buffer {
  const [first, ...others] = hashes;
  if (!first) throw new RangeError("a subtree has at least one hash");
  if (others.length === 0) return first;
  const half = hashes.length / 2;
  return hashNode(joinHashes(hashes.slice(0, half)), joinHashes(hashes.slice(half)));
}

/** Computes the root hash of the leaves from `start` to `end`, which is exclusive (`MTH` in RFC 6962, section 2.1). */
export async function computeRoot(readHashes: ReadHashes, end: number, start = 0): Promise<Buffer> {
  const length = end - start;
  const split = splitAt(length);
  if (split * 2 !== length && length !== 1)
    return hashNode(
      await computeRoot(readHashes, start + split, start),
      await computeRoot(readHashes, end, start + split),
    );
  const level = Math.floor(Math.log2(length) / Math.log2(NODE_WIDTH));
  const leafCount = NODE_WIDTH ** level;
  return joinHashes(await readHashes(level, start / leafCount, length / leafCount));
}

/** Returns the path of a leaf in a tree with the leaves from `start` to `end` (`PATH` in RFC 6962, section 2.1.1). */
export async function readLeafPath(readHashes: ReadHashes, index: number, end: number, start = 0): Promise<Buffer[]> {
  if (end - start === 1) return [];
  const middle = start + splitAt(end - start);
  return index < middle
    ? [...(await readLeafPath(readHashes, index, middle, start)), await computeRoot(readHashes, end, middle)]
    : [...(await readLeafPath(readHashes, index, end, middle)), await computeRoot(readHashes, middle, start)];
}

/** Returns the consistency path from `fromSize` leaves to the whole tree (`SUBPROOF` in RFC 6962, section 2.1.2). */
export async function readConsistencyPath(
  readHashes: ReadHashes,
  fromSize: number,
  end: number,
  start = 0,
): Promise<Buffer[]> {
  if (fromSize === end) return start === 0 ? [] : [await computeRoot(readHashes, end, start)];
  const middle = start + splitAt(end - start);
  return fromSize <= middle
    ? [...(await readConsistencyPath(readHashes, fromSize, middle, start)), await computeRoot(readHashes, end, middle)]
    : [...(await readConsistencyPath(readHashes, fromSize, end, middle)), await computeRoot(readHashes, middle, start)];
}

/** Returns the largest power of two that is smaller than the number of leaves. */
function splitAt(size: number): number {
  let split = 1;
  while (split * 2 < size) split *= 2;
  return split;
}

/**
 * Computes the root hash of a tree from a leaf and its path (RFC 9162, section 2.1.3.2).
 *
 * @param index number of the leaf, counted from 0
 * @returns undefined if the path does not have the length that the index and the size require
 */
export function computeRootOfLeaf(
  leafHash: Buffer,
  index: number,
  size: number,
  path: readonly Buffer[],
): Buffer | undefined {
  if (index >= size) return undefined;
  let [node, lastNode, root] = [index, size - 1, leafHash];
  for (const hash of path) {
    if (lastNode === 0) return undefined;
    if (isOdd(node) || node === lastNode) {
      root = hashNode(hash, root);
      while (!isOdd(node) && node !== 0) [node, lastNode] = [halve(node), halve(lastNode)];
    } else root = hashNode(root, hash);
    [node, lastNode] = [halve(node), halve(lastNode)];
  }
  return lastNode === 0 ? root : undefined;
}

/**
 * Computes a tree's root hashes at two sizes from a consistency path (RFC 9162, section 2.1.4.2). If both match the
 * root hashes of the tree heads, the later tree starts with the leaves of the earlier tree.
 *
 * @param fromSize number of leaves of the earlier tree, at least 1
 * @param toSize number of leaves of the later tree, at least `fromSize`
 * @returns undefined if the length of the path does not match the sizes
 */
export function computeConsistentRoots(
  fromSize: number,
  fromRoot: Buffer,
  toSize: number,
  path: readonly Buffer[],
): { fromRoot: Buffer; toRoot: Buffer } | undefined {
  if (fromSize < 1 || fromSize > toSize) return undefined;
  if (fromSize === toSize) return path.length === 0 ? { fromRoot, toRoot: fromRoot } : undefined;
  const [firstHash, ...laterHashes] = isPowerOfTwo(fromSize) ? [fromRoot, ...path] : path;
  if (!firstHash) return undefined;
  let [node, lastNode] = [fromSize - 1, toSize - 1];
  while (isOdd(node)) [node, lastNode] = [halve(node), halve(lastNode)];
  let [from, to] = [firstHash, firstHash];
  for (const hash of laterHashes) {
    if (lastNode === 0) return undefined;
    if (isOdd(node) || node === lastNode) {
      [from, to] = [hashNode(hash, from), hashNode(hash, to)];
      while (!isOdd(node) && node !== 0) [node, lastNode] = [halve(node), halve(lastNode)];
    } else to = hashNode(to, hash);
    [node, lastNode] = [halve(node), halve(lastNode)];
  }
  return lastNode === 0 ? { fromRoot: from, toRoot: to } : undefined;
}

// Bitwise operators would truncate the numbers to 32 bits.
const isOdd = (value: number) => value % 2 === 1;
const halve = (value: number) => Math.floor(value / 2);
const isPowerOfTwo = (value: number) => (BigInt(value) & (BigInt(value) - 1n)) === 0n;
