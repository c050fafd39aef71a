import { hashEmptyTree, hashLeaf, hashNode } from "../tree/merkle-tree.ts";
import type { Manifest } from "./manifest.ts";

/** Hashes of one level of an export's Merkle tree. The nodes locate the first difference between two exports. */
export interface Blocks {
  /** Number of lines that each node covers, except the last one: 1, or a power of 2 for a long export. */
  lines: number;
  /** Root hashes of the subtrees over the blocks, from the first to the last. */
  roots: Buffer[];
}

const MAX_BLOCKS = 1_024;

/** The Merkle tree (RFC 6962) over the lines of an export, and a summary of its events. */
export class LineTree {
  count = 0;
  first: Manifest["first"] = null;
  last: Manifest["last"] = null;
  readonly #maxBlocks: number;
  #width = 1;
  #roots: Buffer[] = [];
  /** Complete subtrees of the last block, which is incomplete. */
  #peaks: { size: number; hash: Buffer }[] = [];

  constructor(maxBlocks = MAX_BLOCKS) {
    this.#maxBlocks = maxBlocks;
  }

  /** @param line canonical JSON of the event, without line feed */
  add({ position, id }: { position: string; id: string }, line: string): void {
    this.count += 1;
    this.first ??= { position, id };
    this.last = { position, id };
    this.#addSubtree({ size: 1, hash: hashLeaf(line) });
    if (this.#roots.length + (this.#peaks.length > 0 ? 1 : 0) <= this.#maxBlocks) return;
    const roots = this.#roots;
    this.#width *= 2;
    this.#roots = joinPairs(roots.slice(0, roots.length - (roots.length % 2)));
    const [rest] = roots.slice(this.#roots.length * 2);
    if (rest) this.#peaks.unshift({ size: this.#width / 2, hash: rest });
  }

  #addSubtree(subtree: { size: number; hash: Buffer }): void {
    let { size, hash } = subtree;
    for (let left = this.#peaks.at(-1); left?.size === size; left = this.#peaks.at(-1)) {
      this.#peaks.pop();
      [size, hash] = [size * 2, hashNode(left.hash, hash)];
    }
    if (size === this.#width) this.#roots.push(hash);
    else this.#peaks.push({ size, hash });
  }

  getBlocks(): Blocks {
    if (this.#peaks.length === 0) return { lines: this.#width, roots: this.#roots };
    const rest = this.#peaks.map(({ hash }) => hash).reduceRight((right, left) => hashNode(left, right));
    return { lines: this.#width, roots: [...this.#roots, rest] };
  }

  computeRoot(): Buffer {
    return joinTree(this.getBlocks().roots);
  }
}

/** Computes a tree's root hash from the root hashes of its blocks. */
function joinTree(roots: readonly Buffer[]): Buffer {
  const [first, second] = roots;
  if (!first) return hashEmptyTree();
  return second ? joinTree(joinPairs(roots)) : first;
}

/** Joins neighbours. A last hash without neighbour stays: it covers fewer lines. */
function joinPairs(roots: readonly Buffer[]): Buffer[] {
  const pairs = Array.from({ length: Math.ceil(roots.length / 2) }, (_, index) =>
    roots.slice(2 * index, 2 * index + 2),
  );
  return pairs.map(([left, right]) => (right ? hashNode(left as Buffer, right) : (left as Buffer)));
}
