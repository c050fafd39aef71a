/**
 * Builds the files of the test vectors of tree heads and proofs with the code that writes them. `vectors.json` describes
 * them, and says how a verifier must judge them.
 */
import { toCanonicalJson } from "../../../../command/audit/export/json.ts";
import { SIGNATURE_TYPES } from "../../../../command/audit/export/signing.ts";
import type { AuditEvent } from "../../../../command/audit/log/audit-event.ts";
import { toLeaf } from "../../../../command/audit/tree/leaves.ts";
import { GrowingTree } from "../../../../command/audit/tree/merkle-tree.ts";
import {
  CONSISTENCY_PROOF_FORMAT,
  type ConsistencyProof,
  INCLUSION_PROOF_FORMAT,
  type InclusionProof,
  type ProofFaultCode,
} from "../../../../command/audit/tree/proof.ts";
import {
  formatDocument,
  type SignedTreeHead,
  signTreeHead,
  type TreeHead,
} from "../../../../command/audit/tree/tree-head.ts";
import { newerMetadataEvents, treeEvents } from "../export/vector-events.ts";
import { createTestSigner, otherKey, retiredKey, signingKey, type TestKey } from "../export/vector-keys.ts";
import type { Contents } from "../export/vectors.ts";

/** An entry of `vectors.json`: a file and the result of its verification. */
export interface ProofVector {
  file: string;
  /** Name of the file with the trusted keys. */
  keys: string;
  /** Names of files with tree heads that the verifier holds. */
  heads: string[];
  description: string;
  /** Code of the expected fault; null for a genuine file. */
  fault: ProofFaultCode | null;
}

const leaves = treeEvents.map(toLeaf);
const SIZE = leaves.length;

/** Grows the tree. Returns the root hash and the path, in hex, of a leaf or of an earlier size. */
function growTree(size: number, marked: { leaf?: number; size?: number } = {}): { root: string; path: string[] } {
  const tree = new GrowingTree();
  for (const [index, { hash }] of leaves.slice(0, size).entries()) {
    tree.append(hash, index === marked.leaf);
    if (tree.size === marked.size) tree.markState();
  }
  const { root, path } = tree.computeRoot();
  return { root: root.toString("hex"), path: path.map((hash) => hash.toString("hex")) };
}

const TREE_ID = "77777777-7777-4777-8777-777777777777";

async function buildHead(size: number, fields: Partial<TreeHead> = {}, key = signingKey): Promise<SignedTreeHead> {
  const { root } = growTree(size);
  const logPosition = leaves[size - 1]?.event.position ?? "";
  const at = `2026-06-01T00:${String(size).padStart(2, "0")}:00.000Z`;
  return signTreeHead(await createTestSigner(key), { treeId: TREE_ID, size, root, logPosition, at, ...fields });
}

/** Signs a value that the service never signs as a tree head. */
async function forgeHead(treeHead: object, type: keyof typeof SIGNATURE_TYPES = "treeHead", key: TestKey = signingKey) {
  const signer = await createTestSigner(key);
  return { treeHead, signature: await signer.sign(toCanonicalJson(treeHead), SIGNATURE_TYPES[type]) };
}

function buildInclusion(index: number, head: SignedTreeHead): InclusionProof {
  const event = leaves[index]?.event;
  if (!event) throw new Error(`there is no leaf ${index}`);
  return {
    format: INCLUSION_PROOF_FORMAT,
    event,
    index,
    path: growTree(head.treeHead.size, { leaf: index }).path,
    head,
  };
}

function buildConsistency(from: SignedTreeHead, to: SignedTreeHead): ConsistencyProof {
  const { path } = growTree(to.treeHead.size, { size: from.treeHead.size });
  return { format: CONSISTENCY_PROOF_FORMAT, from, to, path };
}

/** Builds the proof that an event is the only leaf of a tree. */
async function buildOnlyInclusion(auditEvent: AuditEvent): Promise<InclusionProof> {
  const { event, hash } = toLeaf(auditEvent);
  const head = await buildHead(1, { root: hash.toString("hex"), logPosition: event.position });
  return { format: INCLUSION_PROOF_FORMAT, event, index: 0, path: [], head };
}

/** Returns all files: genuine documents, altered tree heads and altered proofs. */
export async function buildProofFiles(): Promise<Contents> {
  const documents = {
    ...(await buildGenuineDocuments()),
    ...(await buildAlteredHeads()),
    ...(await buildAlteredProofs()),
  };
  const files = Object.entries(documents).map(([name, document]) => [`${name}.json`, formatDocument(document)]);
  return { ...Object.fromEntries(files), ...(await buildMalformedFiles()) };
}

async function buildGenuineDocuments(): Promise<Record<string, object>> {
  const [one, six, eight, head] = [await buildHead(1), await buildHead(6), await buildHead(8), await buildHead(SIZE)];
  const [firstEvent, secondEvent] = newerMetadataEvents as [AuditEvent, AuditEvent];
  return {
    head,
    "head-of-six": six,
    "head-retired-key": await buildHead(6, {}, retiredKey),
    "inclusion-first": buildInclusion(0, head),
    "inclusion-last": buildInclusion(SIZE - 1, head),
    "inclusion-only": buildInclusion(0, one),
    "inclusion-text": buildInclusion(5, head),
    "inclusion-names": buildInclusion(6, eight),
    "inclusion-numbers": buildInclusion(7, head),
    "inclusion-metadata-1": await buildOnlyInclusion(firstEvent),
    "inclusion-metadata-2": await buildOnlyInclusion(secondEvent),
    consistency: buildConsistency(six, head),
    "consistency-complete": buildConsistency(eight, head),
    "consistency-same": buildConsistency(six, six),
  };
}

async function buildAlteredHeads(): Promise<Record<string, object>> {
  const head = await buildHead(SIZE);
  const { treeHead, signature } = head;
  return {
    "head-altered": { ...head, treeHead: { ...treeHead, size: 14 } },
    "head-member-added": { ...head, note: "" },
    "head-other-key": await forgeHead(treeHead, "treeHead", otherKey),
    "head-cut-signature": { ...head, signature: signature.slice(0, -1) },
    "head-type-wrong": await forgeHead(treeHead, "export"),
    "head-format-unknown": await forgeHead({ ...treeHead, format: "clinic-service-audit-tree-head/2" }),
    "head-without-events": await forgeHead({ ...treeHead, size: 0 }),
    "head-extended": await forgeHead({ ...treeHead, note: "" }),
  };
}

/** Files that are not the bytes of a document. */
async function buildMalformedFiles(): Promise<Contents> {
  const text = formatDocument(await buildHead(SIZE));
  return {
    "space-added.json": text.replace(":", ": "),
    "no-line-feed.json": text.trimEnd(),
    "second-line.json": text + text,
    "empty.json": "",
    "invalid-utf8.json": Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from([0xff, 0x0a])]),
  };
}

async function buildAlteredProofs(): Promise<Record<string, object>> {
  const [six, head] = [await buildHead(6), await buildHead(SIZE)];
  const inclusion = buildInclusion(4, head);
  const { event, path } = inclusion;
  const consistency = buildConsistency(six, head);
  const changedRoot = "0".repeat(64);
  return {
    "event-changed": { ...inclusion, event: { ...event, revision: 9 } },
    "problem-added": { ...inclusion, event: { ...event, problem: "" } },
    "index-changed": { ...inclusion, index: 5 },
    "index-too-large": { ...inclusion, index: SIZE },
    "index-negative": { ...inclusion, index: -1 },
    "path-cut": { ...inclusion, path: path.slice(0, -1) },
    "path-extended": { ...inclusion, path: [...path, changedRoot] },
    "path-changed": { ...inclusion, path: path.with(1, changedRoot) },
    "path-in-upper-case": { ...inclusion, path: path.map((hash) => hash.toUpperCase()) },
    "proof-without-head": { ...inclusion, head: head.treeHead },
    "proof-of-other-head": { ...inclusion, head: six },
    "inclusion-unexpected": inclusion,
    "consistency-cut": { ...consistency, path: consistency.path.slice(1) },
    "consistency-exchanged": { ...consistency, from: head, to: six },
    "consistency-rewritten": { ...consistency, from: await buildHead(6, { root: changedRoot }) },
    "consistency-other-tree": { ...consistency, from: await buildHead(6, { treeId: TREE_ID.replaceAll("7", "8") }) },
  };
}
