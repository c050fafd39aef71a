import { createHash } from "node:crypto";
import fs from "node:fs";
import path from "node:path";
import { expect } from "chai";
import fc from "fast-check";
import { createAuditSigner } from "../../../../command/audit/export/signing.ts";
import { formatCheckpoint, formatVerifierKey } from "../../../../command/audit/tree/checkpoint.ts";
import { GrowingTree, hashLeaf } from "../../../../command/audit/tree/merkle-tree.ts";
import { TiledTree } from "../../../../command/audit/tree/tiled-tree.ts";
import { TileEdge } from "../../../../command/audit/tree/write-tiles.ts";
import { makeTestRoot } from "../../../support/stack.ts";

/** Tiles, paths and a checkpoint computed by the implementation that the member `source` names. */
const vectors = JSON.parse(fs.readFileSync(new URL("./vectors/tlog.json", import.meta.url), "utf8"));

const createLeaves = (size: number) => Array.from({ length: size }, (_, index) => hashLeaf(`leaf ${index}`));
const toHex = (hashes: Buffer[]) => hashes.map((hash) => hash.toString("hex"));

/** Writes the tiles in two runs. The second run continues from the files of the first. */
async function writeLeaves(leaves: Buffer[], interruptedAt = 0): Promise<TiledTree> {
  const folder = makeTestRoot();
  for (const [start, end] of [
    [0, interruptedAt],
    [interruptedAt, leaves.length],
  ] as const) {
    const edge = await TileEdge.open(folder, new TiledTree(folder, start), start);
    for (const [index, leaf] of leaves.slice(start, end).entries())
      await edge.append(leaf, BigInt((start + index) * 7));
    await edge.writePartialTiles();
    await edge.close();
  }
  return new TiledTree(folder, leaves.length);
}

describe("hash tiles", () => {
  it("tiles, roots and paths equal those of golang.org/x/mod/sumdb/tlog", async () => {
    const tree = await writeLeaves(createLeaves(vectors.size), 65_600);
    for (const { file, sha256 } of vectors.tiles) {
      const bytes = fs.readFileSync(path.join(tree.folder, file));
      expect(createHash("sha256").update(bytes).digest("hex"), file).to.equal(sha256);
    }
    for (const [size, root] of Object.entries(vectors.roots))
      expect((await tree.computeRoot(0, Number(size))).toString("hex"), size).to.equal(root);
    for (const { size, index, path } of vectors.leafPaths)
      expect(toHex(await tree.readLeafPath(index, size)), `${index} of ${size}`).to.deep.equal(path);
    for (const { from, to, path } of vectors.consistencyPaths)
      expect(toHex(await tree.readConsistencyPath(from, to)), `${from} to ${to}`).to.deep.equal(path);
  });

  it("a checkpoint and its key equal those of golang.org/x/mod/sumdb/note", async () => {
    const { d, x, treeId, vkey, note } = vectors.checkpoint;
    const key = { kty: "OKP", crv: "Ed25519", kid: "current", d, x } as const;
    const signer = await createAuditSigner({ AUDIT_SIGNING_KEYS: { keys: [key] } });
    expect(formatVerifierKey(treeId, signer)).to.equal(vkey);
    const head = { treeId, size: vectors.size, root: vectors.roots[vectors.size] };
    expect(await formatCheckpoint(head, signer)).to.equal(note);
  });

  it("paths from the tiles of a larger tree equal paths from all leaves, for random sizes and interruptions", async () => {
    const leaves = createLeaves(1_500);
    const sizes = fc.integer({ min: 1, max: leaves.length });
    await fc.assert(
      fc.asyncProperty(sizes, sizes, sizes, fc.nat(), async (...[first, second, third, number]) => {
        const [from, to, size] = [first, second, third].sort((left, right) => left - right) as [number, number, number];
        const tree = await writeLeaves(leaves.slice(0, size), from);
        const index = number % to;
        const [grownTree, grownFrom] = [new GrowingTree(), new GrowingTree()];
        for (const [leafIndex, leaf] of leaves.slice(0, to).entries()) {
          grownTree.append(leaf, leafIndex === index);
          grownFrom.append(leaf);
          if (grownFrom.size === from) grownFrom.markState();
        }
        expect(toHex(await tree.readLeafPath(index, to))).to.deep.equal(toHex(grownTree.computeRoot().path));
        expect(toHex(await tree.readConsistencyPath(from, to))).to.deep.equal(toHex(grownFrom.computeRoot().path));
        expect(await tree.findLeaf(leaves[index] as Buffer, BigInt(index * 7))).to.equal(index);
        expect(await tree.findLeaf(hashLeaf("other"), BigInt(index * 7))).to.equal(undefined);
        fs.rmSync(tree.folder, { recursive: true });
      }),
      { numRuns: 40 },
    );
  }).timeout(60_000);
});
