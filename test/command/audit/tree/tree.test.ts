import fs from "node:fs";
import { expect } from "chai";
import fc from "fast-check";
import {
  computeConsistentRoots,
  computeRoot,
  computeRootOfLeaf,
  hashEmptyTree,
  hashLeaf,
  hashNode,
  type ReadHashes,
  readConsistencyPath,
  readLeafPath,
  TreeEdge,
} from "../../../../command/audit/tree/merkle-tree.ts";
import { growTree } from "./test-tree.ts";

interface KnownAnswers {
  leaves: string[];
  /** Root hashes of the trees with 0 to 8 leaves. */
  roots: string[];
  /** Inclusion paths of leaves. `index` is counted from 0. */
  leafPaths: { index: number; size: number; path: string[] }[];
  /** Consistency paths between trees of two sizes. */
  consistencyPaths: { from: number; to: number; path: string[] }[];
}

/** Published test data for RFC 6962, as used for Certificate Transparency logs. All values are in hex. */
const knownAnswers: KnownAnswers = JSON.parse(
  fs.readFileSync(new URL("./vectors/rfc6962.json", import.meta.url), "utf8"),
);

const toHex = (hash: Buffer | undefined) => hash?.toString("hex");

const computeTreeRoot = async (leafHashes: readonly Buffer[]) =>
  computeRoot((await growTree(leafHashes)).readHashes, leafHashes.length);

const computeLeafPath = async (leafHashes: readonly Buffer[], index: number) =>
  readLeafPath((await growTree(leafHashes)).readHashes, index, leafHashes.length);

const computeConsistencyPath = async (leafHashes: readonly Buffer[], fromSize: number) =>
  readConsistencyPath((await growTree(leafHashes)).readHashes, fromSize, leafHashes.length);

/** Direct implementation of RFC 6962, section 2.1, with its function names: `MTH`, `PATH` and `SUBPROOF`. */
const definitions = {
  split: (size: number) => 2 ** Math.ceil(Math.log2(size) - 1),
  MTH(hashes: readonly Buffer[]): Buffer {
    if (hashes.length === 0) return hashEmptyTree();
    if (hashes.length === 1) return hashes[0] as Buffer;
    const k = this.split(hashes.length);
    return hashNode(this.MTH(hashes.slice(0, k)), this.MTH(hashes.slice(k)));
  },
  PATH(m: number, hashes: readonly Buffer[]): Buffer[] {
    if (hashes.length === 1) return [];
    const k = this.split(hashes.length);
    return m < k
      ? [...this.PATH(m, hashes.slice(0, k)), this.MTH(hashes.slice(k))]
      : [...this.PATH(m - k, hashes.slice(k)), this.MTH(hashes.slice(0, k))];
  },
  SUBPROOF(m: number, hashes: readonly Buffer[], isWhole: boolean): Buffer[] {
    if (m === hashes.length) return isWhole ? [] : [this.MTH(hashes)];
    const k = this.split(hashes.length);
    return m <= k
      ? [...this.SUBPROOF(m, hashes.slice(0, k), isWhole), this.MTH(hashes.slice(k))]
      : [...this.SUBPROOF(m - k, hashes.slice(k), false), this.MTH(hashes.slice(0, k))];
  },
};

const knownHashes = knownAnswers.leaves.map((leaf) => hashLeaf(Buffer.from(leaf, "hex")));
const someHashes = Array.from({ length: 300 }, (_, index) => hashLeaf(`leaf ${index}`));

describe("the Merkle tree", () => {
  it("the tree has the roots of the known answers for RFC 6962", async () => {
    const { edge } = await growTree([]);
    const roots = [toHex(edge.computeRoot())];
    for (const leafHash of knownHashes) {
      edge.append(leafHash);
      roots.push(toHex(edge.computeRoot()));
    }
    expect(roots).to.deep.equal(knownAnswers.roots);
  });

  it("the paths equal the known answers for RFC 6962", async () => {
    for (const { index, size, path } of knownAnswers.leafPaths)
      expect((await computeLeafPath(knownHashes.slice(0, size), index)).map(toHex)).to.deep.equal(path);
    for (const { from, to, path } of knownAnswers.consistencyPaths)
      expect((await computeConsistencyPath(knownHashes.slice(0, to), from)).map(toHex)).to.deep.equal(path);
  });

  it("roots and paths equal the recursive definitions of RFC 6962", async () => {
    for (let size = 1; size <= someHashes.length; size += 1) {
      const hashes = someHashes.slice(0, size);
      const root = definitions.MTH(hashes);
      expect([(await growTree(hashes)).edge.computeRoot(), await computeTreeRoot(hashes)]).to.deep.equal([root, root]);
      for (const index of [0, 1, 2, 7, 31, 63, 255, size - 1].filter((index) => index < size)) {
        expect(await computeLeafPath(hashes, index)).to.deep.equal(definitions.PATH(index, hashes));
        const path = definitions.SUBPROOF(index + 1, hashes, true);
        expect(await computeConsistencyPath(hashes, index + 1), `${index + 1} to ${size}`).to.deep.equal(path);
      }
    }
  });

  it("a tree continues from the edge that is read from its nodes", async () => {
    for (const size of [0, 1, 15, 16, 17, 256, 299]) {
      const edge = await TreeEdge.read((await growTree(someHashes.slice(0, size))).readHashes, size);
      for (const leafHash of someHashes.slice(size)) edge.append(leafHash);
      expect([edge.size, edge.computeRoot()]).to.deep.equal([someHashes.length, definitions.MTH(someHashes)]);
    }
  });

  it("a proof reads a number of hashes that grows with the logarithm of the tree", async () => {
    let readCount = 0;
    const hash = hashEmptyTree();
    const readHashes: ReadHashes = async (_level, _first, count) => {
      readCount += count;
      return Array.from({ length: count }, () => hash);
    };
    await readLeafPath(readHashes, 12_345_678, 2 ** 30 + 5);
    await readConsistencyPath(readHashes, 12_345_678, 2 ** 30 + 5);
    expect(readCount).to.be.below(600);
  });

  const sizes = fc.integer({ min: 1, max: someHashes.length });

  it("a verifier accepts the path of each leaf, and no other leaf, index, size or path", async () => {
    await fc.assert(
      fc.asyncProperty(sizes, sizes, sizes, async (size, number, otherNumber) => {
        const index = number % size;
        const hashes = someHashes.slice(0, size);
        const root = toHex(definitions.MTH(hashes));
        const path = await computeLeafPath(hashes, index);
        const leafHash = hashes[index] as Buffer;
        const verify = (...args: Parameters<typeof computeRootOfLeaf>) => toHex(computeRootOfLeaf(...args)) === root;
        expect(verify(leafHash, index, size, path)).to.equal(true);
        expect(verify(hashLeaf("other"), index, size, path)).to.equal(false);
        if (otherNumber !== index) expect(verify(leafHash, otherNumber, size, path)).to.equal(false);
        expect(verify(leafHash, index, size, [...path, leafHash])).to.equal(false);
        for (const removedIndex of path.keys())
          expect(verify(leafHash, index, size, path.toSpliced(removedIndex, 1))).to.equal(false);
        for (const changedIndex of path.keys())
          expect(verify(leafHash, index, size, path.with(changedIndex, hashLeaf("other")))).to.equal(false);
      }),
    );
  });

  it("a verifier accepts a consistency path only for the two states, and only in full", async () => {
    await fc.assert(
      fc.asyncProperty(sizes, sizes, async (number, otherNumber) => {
        const [from, to] = [Math.min(number, otherNumber), Math.max(number, otherNumber)];
        const [fromRoot, toRoot] = [from, to].map((size) => definitions.MTH(someHashes.slice(0, size))) as [
          Buffer,
          Buffer,
        ];
        const path = await computeConsistencyPath(someHashes.slice(0, to), from);
        const verify = (candidatePath: Buffer[], expectedFromRoot = fromRoot, expectedToRoot = toRoot) => {
          const roots = computeConsistentRoots(from, expectedFromRoot, to, candidatePath);
          return roots?.fromRoot.equals(expectedFromRoot) === true && roots.toRoot.equals(expectedToRoot);
        };
        expect(verify(path)).to.equal(true);
        expect(verify(path, hashLeaf("other"))).to.equal(false);
        expect(verify(path, fromRoot, hashLeaf("other"))).to.equal(false);
        expect(verify([...path, fromRoot])).to.equal(false);
        for (const index of path.keys()) {
          expect(verify(path.toSpliced(index, 1))).to.equal(false);
          expect(verify(path.with(index, hashLeaf("other")))).to.equal(false);
        }
      }),
    );
  });

  it("sizes beyond 32 bits have the right path lengths", () => {
    const hash = hashEmptyTree();
    const size = 2 ** 40 + 5;
    const path = Array.from({ length: 3 }, () => hash);
    expect(computeRootOfLeaf(hash, 2 ** 40, size, path)).to.equal(undefined);
    // The leaf is in the subtree of four leaves: two hashes inside the subtree, one for each of the other peaks.
    expect(computeRootOfLeaf(hash, 2 ** 40, size, [...path, hash])).not.to.equal(undefined);
  });
});
