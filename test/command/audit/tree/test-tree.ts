import { type ReadHashes, TreeEdge } from "../../../../command/audit/tree/merkle-tree.ts";

/** Creates a tree in memory that stores the same nodes as the audit index. */
export async function growTree(leafHashes: readonly Buffer[]): Promise<{ edge: TreeEdge; readHashes: ReadHashes }> {
  const edge = await TreeEdge.read(async () => [], 0);
  const levels: Buffer[][] = [[...leafHashes]];
  for (const leafHash of leafHashes)
    for (const { level, number, hash } of edge.append(leafHash)) {
      levels[level] ??= [];
      levels[level][number] = hash;
    }
  return { edge, readHashes: async (level, first, count) => (levels[level] ?? []).slice(first, first + count) };
}
