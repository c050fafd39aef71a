import { createHash } from "node:crypto";

/** Number of bytes in each hash of the tree. */
export const HASH_BYTES = 32;

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
