import { hashEmptyTree, hashLeaf, hashNode } from "../tree/merkle-tree.ts";
import type { Manifest } from "./manifest.ts";

/** Hashes of an export's blocks of lines. A verifier uses these hashes to locate the first difference. */
export interface Blocks {
  /** Number of lines in each block, a power of 2. Only the last block can be shorter. */
  lines: number;
  /** Root hash of each block, in the order of the lines. */
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
  /** Hashes of the lines in the last block, until the block is complete. */
  #pending: Buffer[] = [];

  /** @param maxBlocks maximum number of blocks, an even number */
  constructor(maxBlocks = MAX_BLOCKS) {
    this.#maxBlocks = maxBlocks;
  }

  /** @param line canonical JSON of the event, without line feed */
  add({ position, id }: { position: string; id: string }, line: string): void {
    this.count += 1;
    this.first ??= { position, id };
    this.last = { position, id };
    if (this.#roots.length === this.#maxBlocks && this.#pending.length === 0) {
      this.#roots = joinPairs(this.#roots);
      this.#width *= 2;
    }
    this.#pending.push(hashLeaf(line));
    if (this.#pending.length < this.#width) return;
    this.#roots.push(joinTree(this.#pending));
    this.#pending = [];
  }

  getBlocks(): Blocks {
    const rest = this.#pending.length > 0 ? [joinTree(this.#pending)] : [];
    return { lines: this.#width, roots: [...this.#roots, ...rest] };
  }

  computeRoot(): Buffer {
    return joinTree(this.getBlocks().roots);
  }
}

/** Computes the root hash of a tree from the root hashes of its blocks. */
function joinTree(roots: readonly Buffer[]): Buffer {
  const [first, second] = roots;
  if (!first) return hashEmptyTree();
  return second ? joinTree(joinPairs(roots)) : first;
}

/** Hashes pairs of neighboring hashes. A last hash without a pair is kept. */
function joinPairs(roots: readonly Buffer[]): Buffer[] {
  const pairs = Array.from({ length: Math.ceil(roots.length / 2) }, (_, index) =>
    roots.slice(2 * index, 2 * index + 2),
  );
  return pairs.map(([left, right]) => (right ? hashNode(left as Buffer, right) : (left as Buffer)));
}
