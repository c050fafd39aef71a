import { hashNode } from "./hash.ts";

/**
 * Computes the root hash of a tree from a leaf and its path (RFC 9162, section 2.1.3.2).
 *
 * @param index number of the leaf, counted from 0
 * @param size number of leaves of the tree
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
 * @param fromRoot root hash of the earlier state
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
