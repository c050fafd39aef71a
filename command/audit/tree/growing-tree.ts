import { hashEmptyTree, hashNode } from "./hash.ts";

/** A complete subtree with 2^level leaves. */
interface Subtree {
  level: number;
  hash: Buffer;
  /** True if the subtree contains the start of the recorded path. */
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
  /** Number of leaves of the marked state. */
  #markedSize: number | undefined;

  /**
   * @param size number of leaves of an earlier state of the tree
   * @param peakHashes the peaks of that state, from left to right
   * @throws {RangeError} if a tree of this size has another number of peaks
   */
  constructor(size = 0, peakHashes: readonly Buffer[] = []) {
    this.#size = size;
    const levels = listPeakLevels(size);
    if (levels.length !== peakHashes.length)
      throw new RangeError(`a tree of ${size} leaves has ${levels.length} peaks`);
    this.#peaks = peakHashes.map((hash, index) => ({ level: levels[index] ?? 0, hash, isMarked: false }));
  }

  /** Number of leaves. */
  get size(): number {
    return this.#size;
  }

  /** Hashes of the peaks, from left to right. */
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
