import { createHash } from "node:crypto";

/** Prefixes of hashed bytes (RFC 6962, section 2.1), so that no node of the tree can be mistaken for a leaf. */
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

interface Subtree {
  level: number;
  hash: Buffer;
  /** True if the recorded path starts in this subtree. */
  isMarked: boolean;
}

/**
 * A Merkle tree (RFC 6962) that grows leaf by leaf. It keeps only the peaks: the largest complete subtrees from left to
 * right, one for each bit that is set in the number of leaves. So its memory grows with the logarithm of this number.
 *
 * The tree can record one path: the hashes from which a verifier computes the root, starting at a leaf or at an earlier
 * state of the tree.
 */
export class GrowingTree {
  #size: number;
  readonly #peaks: Subtree[];
  readonly #path: Buffer[] = [];
  #markedSize: number | undefined;

  /**
   * @param size number of leaves of an earlier state of the tree
   * @throws {RangeError} if a tree of this size has another number of peaks
   */
  constructor(size = 0, peakHashes: readonly Buffer[] = []) {
    this.#size = size;
    const levels = listPeakLevels(size);
    if (levels.length !== peakHashes.length)
      throw new RangeError(`a tree of ${size} leaves has ${levels.length} peaks`);
    this.#peaks = peakHashes.map((hash, index) => ({ level: levels[index] ?? 0, hash, isMarked: false }));
  }

  get size(): number {
    return this.#size;
  }

  get peakHashes(): Buffer[] {
    return this.#peaks.map(({ hash }) => hash);
  }

  /** Adds a leaf. If it is marked, the path of the leaf is recorded. */
  append(leafHash: Buffer, isMarked = false): void {
    this.#size += 1;
    let subtree: Subtree = { level: 0, hash: leafHash, isMarked };
    for (;;) {
      const left = this.#peaks.at(-1);
      if (left?.level !== subtree.level) break;
      this.#peaks.pop();
      subtree = { level: left.level + 1, ...join(left, subtree, this.#path) };
    }
    this.#peaks.push(subtree);
  }

  /**
   * Marks the current state of the tree, so that the consistency path from this state to later states is recorded: the
   * last peak, and the path of this peak. If the state is one complete subtree, the path omits its hash, because the hash
   * is the root that the verifier knows.
   */
  markState(): void {
    const lastPeak = this.#peaks.at(-1);
    if (!lastPeak) throw new RangeError("a tree without leaves has no consistency path");
    lastPeak.isMarked = true;
    if (this.#peaks.length > 1) this.#path.push(lastPeak.hash);
    this.#markedSize = this.#size;
  }

  /** Computes the root hash, and the recorded path; empty if nothing is marked. Does not change the tree. */
  computeRoot(): { root: Buffer; path: Buffer[] } {
    const path = [...this.#path];
    const [lastPeak, ...otherPeaks] = [...this.#peaks].reverse();
    if (!lastPeak) return { root: hashEmptyTree(), path };
    const root = otherPeaks.reduce<Omit<Subtree, "level">>((right, left) => join(left, right, path), lastPeak);
    return { root: root.hash, path: this.#size === this.#markedSize ? [] : path };
  }
}

/** Joins two subtrees. If one of them is marked, the hash of the other one is added to the path. */
function join(
  left: Omit<Subtree, "level">,
  right: Omit<Subtree, "level">,
  path: Buffer[],
): Pick<Subtree, "hash" | "isMarked"> {
  if (left.isMarked) path.push(right.hash);
  if (right.isMarked) path.push(left.hash);
  return { hash: hashNode(left.hash, right.hash), isMarked: left.isMarked || right.isMarked };
}

/** Returns the levels of the peaks, from left to right: the bits that are set in the number of leaves. */
function listPeakLevels(size: number): number[] {
  const bits = [...size.toString(2)];
  return bits.flatMap((bit, index) => (bit === "1" ? [bits.length - 1 - index] : []));
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
 * Computes the root hashes of two states of a tree from a consistency path (RFC 9162, section 2.1.4.2). If both hashes
 * are those of the tree heads, the later state contains the leaves of the earlier state, unchanged and in their order.
 *
 * @param fromSize number of leaves of the earlier state, at least 1
 * @param toSize number of leaves of the later state, at least `fromSize`
 * @returns undefined if the path does not have the length that the sizes require
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
