/**
 * Builds the unaltered test vectors of tree heads and proofs with the code that writes them. `vectors.json` describes
 * all vectors, including altered files, and the result that a verifier must return.
 */
import type { AuditEvent } from "../../../../command/audit/log/audit-event.ts";
import { toLeaf } from "../../../../command/audit/tree/leaves.ts";
import { readConsistencyPath, readLeafPath } from "../../../../command/audit/tree/merkle-tree.ts";
import { CONSISTENCY_PROOF_FORMAT, INCLUSION_PROOF_FORMAT } from "../../../../command/audit/tree/proof.ts";
import {
  formatDocument,
  type SignedTreeHead,
  signTreeHead,
  type TreeHead,
} from "../../../../command/audit/tree/tree-head.ts";
import { newerMetadataEvents, treeEvents } from "../export/vector-events.ts";
import { createTestSigner, retiredKey, signingKey } from "../export/vector-keys.ts";
import { readVectors } from "../export/vectors.ts";
import { growTree } from "./test-tree.ts";

export const treeVectors = readVectors(new URL("./vectors/", import.meta.url));

const leaves = treeEvents.map(toLeaf);
const SIZE = leaves.length;

/**
 * Returns the root hash of the tree with `size` leaves, in hex.
 *
 * @param marked leaf or earlier size. The returned path is its inclusion path or consistency path
 */
async function describeTree(size: number, marked: { leaf?: number; size?: number } = {}) {
  const { readHashes, edge } = await growTree(leaves.slice(0, size).map(({ hash }) => hash));
  const path =
    marked.leaf !== undefined
      ? await readLeafPath(readHashes, marked.leaf, size)
      : marked.size !== undefined && marked.size <= size
        ? await readConsistencyPath(readHashes, marked.size, size)
        : [];
  return { root: edge.computeRoot().toString("hex"), path: path.map((hash) => hash.toString("hex")) };
}

const TREE_ID = "77777777-7777-4777-8777-777777777777";

async function buildHead(size: number, fields: Partial<TreeHead> = {}, key = signingKey): Promise<SignedTreeHead> {
  const { root } = await describeTree(size);
  const logPosition = leaves[size - 1]?.event.position ?? "";
  const at = `2026-06-01T00:${String(size).padStart(2, "0")}:00.000Z`;
  return signTreeHead(await createTestSigner(key), { treeId: TREE_ID, size, root, logPosition, at, ...fields });
}

async function buildInclusion(index: number, head: SignedTreeHead) {
  const event = leaves[index]?.event;
  if (!event) throw new Error(`there is no leaf ${index}`);
  return {
    format: INCLUSION_PROOF_FORMAT,
    event,
    index,
    path: (await describeTree(head.treeHead.size, { leaf: index })).path,
    head,
  };
}

async function buildConsistency(from: SignedTreeHead, to: SignedTreeHead) {
  const { path } = await describeTree(to.treeHead.size, { size: from.treeHead.size });
  return { format: CONSISTENCY_PROOF_FORMAT, from, to, path };
}

/** Builds an inclusion proof for a tree whose only leaf is the event. */
async function buildOnlyInclusion(auditEvent: AuditEvent) {
  const { event, hash } = toLeaf(auditEvent);
  const head = await buildHead(1, { root: hash.toString("hex"), logPosition: event.position });
  return { format: INCLUSION_PROOF_FORMAT, event, index: 0, path: [], head };
}

/**
 * Returns the valid documents by file name. Altered files are not built: they are stored in the folder of the vectors.
 */
export async function buildProofFiles(): Promise<Record<string, string>> {
  const [one, six, eight, head] = [await buildHead(1), await buildHead(6), await buildHead(8), await buildHead(SIZE)];
  const [firstEvent, secondEvent] = newerMetadataEvents as [AuditEvent, AuditEvent];
  const documents = {
    head,
    "head-of-six": six,
    "head-retired-key": await buildHead(6, {}, retiredKey),
    "inclusion-first": await buildInclusion(0, head),
    "inclusion-last": await buildInclusion(SIZE - 1, head),
    "inclusion-only": await buildInclusion(0, one),
    "inclusion-text": await buildInclusion(5, head),
    "inclusion-names": await buildInclusion(6, eight),
    "inclusion-numbers": await buildInclusion(7, head),
    "inclusion-metadata-1": await buildOnlyInclusion(firstEvent),
    "inclusion-metadata-2": await buildOnlyInclusion(secondEvent),
    consistency: await buildConsistency(six, head),
    "consistency-complete": await buildConsistency(eight, head),
    "consistency-same": await buildConsistency(six, six),
  };
  return Object.fromEntries(
    Object.entries(documents).map(([name, document]) => [`${name}.json`, formatDocument(document)]),
  );
}
