/** Builds the test vectors of tree heads and proofs with the code that writes them. */
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

/** A file and the result of its verification. `vectors.json` lists all vectors in this form, without `content`. */
export interface ProofVector {
  file: string;
  content: string | Uint8Array;
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

/** Returns all vectors. */
export async function buildProofVectors(): Promise<ProofVector[]> {
  return [...(await buildGenuineVectors()), ...(await buildAlteredHeads()), ...(await buildAlteredProofs())];
}

function toVector(file: string, description: string, document: object, others: Partial<ProofVector> = {}): ProofVector {
  const defaults = { keys: "keys.json", heads: [], fault: null };
  return { file: `${file}.json`, description, content: formatDocument(document), ...defaults, ...others };
}

async function buildGenuineVectors(): Promise<ProofVector[]> {
  const [one, six, eight, head] = [await buildHead(1), await buildHead(6), await buildHead(8), await buildHead(SIZE)];
  const heads = ["head.json"];
  return [
    toVector("head", `tree head of ${SIZE} events`, head),
    toVector("head-of-six", "earlier tree head of the same tree", six),
    toVector("head-retired-key", "signed with the second key of the key set", await buildHead(6, {}, retiredKey)),
    toVector("inclusion-first", "the first event", buildInclusion(0, head), { heads }),
    toVector("inclusion-last", "the last event", buildInclusion(SIZE - 1, head), { heads }),
    toVector("inclusion-only", "the only event of a tree; the path is empty", buildInclusion(0, one)),
    toVector("inclusion-text", "an event with unusual text, of an unknown type", buildInclusion(5, head)),
    toVector("inclusion-names", "an event with unusual names", buildInclusion(6, eight)),
    toVector("inclusion-numbers", "an event with unusual numbers", buildInclusion(7, head)),
    ...(await Promise.all(
      newerMetadataEvents
        .slice(0, 2)
        .map(async (event, index) =>
          toVector(
            `inclusion-metadata-${index + 1}`,
            `metadata of another release: event ${index + 1} of newer-metadata.ndjson`,
            await buildOnlyInclusion(event),
          ),
        ),
    )),
    toVector("consistency", "from six events", buildConsistency(six, head), {
      heads: ["head.json", "head-of-six.json"],
    }),
    toVector("consistency-complete", "from eight events, a complete subtree", buildConsistency(eight, head)),
    toVector("consistency-same", "from a tree head to itself; the path is empty", buildConsistency(six, six)),
  ];
}

async function buildAlteredHeads(): Promise<ProofVector[]> {
  const head = await buildHead(SIZE);
  const { treeHead, signature } = head;
  const other = await forgeHead(treeHead, "treeHead", otherKey);
  const cases: [file: string, description: string, fault: ProofFaultCode, document: object][] = [
    [
      "head-altered",
      "the readable size differs",
      "tree_head_altered",
      { ...head, treeHead: { ...treeHead, size: 14 } },
    ],
    ["head-member-added", "a member was added", "not_a_proof", { ...head, note: "" }],
    ["head-other-key", "signed with a key that is not trusted", "key_untrusted", other],
    [
      "head-cut-signature",
      "the signature was cut",
      "signature_invalid",
      { ...head, signature: signature.slice(0, -1) },
    ],
    [
      ...(["head-type-wrong", "signed as an export", "signature_type_wrong"] as const),
      await forgeHead(treeHead, "export"),
    ],
    [
      ...(["head-format-unknown", "the signed tree head has another format", "tree_head_unsupported"] as const),
      await forgeHead({ ...treeHead, format: "clinic-service-audit-tree-head/2" }),
    ],
    [
      ...(["head-without-events", "the signed size is 0", "tree_head_unsupported"] as const),
      await forgeHead({ ...treeHead, size: 0 }),
    ],
    [
      ...(["head-extended", "the signed tree head has an unknown member", "tree_head_unsupported"] as const),
      await forgeHead({ ...treeHead, note: "" }),
    ],
  ];
  const text = formatDocument(head);
  return [
    ...cases.map(([file, description, fault, document]) => toVector(file, description, document, { fault })),
    toVector("space-added", "a space was added", head, { content: text.replace(":", ": "), fault: "not_canonical" }),
    toVector("no-line-feed", "the line feed was removed", head, { content: text.trimEnd(), fault: "not_canonical" }),
    toVector("second-line", "a second line follows", head, { content: text + text, fault: "not_a_proof" }),
    toVector("empty", "an empty file", head, { content: "", fault: "not_a_proof" }),
    toVector("invalid-utf8", "a byte that is not UTF-8", head, {
      content: Buffer.concat([Buffer.from(text.slice(0, -1)), Buffer.from([0xff, 0x0a])]),
      fault: "not_a_proof",
    }),
  ];
}

async function buildAlteredProofs(): Promise<ProofVector[]> {
  const [six, head] = [await buildHead(6), await buildHead(SIZE)];
  const inclusion = buildInclusion(4, head);
  const { event, path } = inclusion;
  const consistency = buildConsistency(six, head);
  const changedRoot = "0".repeat(64);
  const cases: [file: string, description: string, fault: ProofFaultCode, document: object][] = [
    ["event-changed", "the event was changed", "path_invalid", { ...inclusion, event: { ...event, revision: 9 } }],
    ["problem-added", "a problem was added", "path_invalid", { ...inclusion, event: { ...event, problem: "" } }],
    ["index-changed", "the index was changed", "path_invalid", { ...inclusion, index: 5 }],
    ["index-too-large", "the index is the size of the tree", "path_invalid", { ...inclusion, index: SIZE }],
    ["index-negative", "the index is negative", "not_a_proof", { ...inclusion, index: -1 }],
    ["path-cut", "the last hash was removed", "path_invalid", { ...inclusion, path: path.slice(0, -1) }],
    ["path-extended", "a hash was added", "path_invalid", { ...inclusion, path: [...path, changedRoot] }],
    ["path-changed", "a hash was changed", "path_invalid", { ...inclusion, path: path.with(1, changedRoot) }],
    [
      ...(["path-in-upper-case", "the hashes are in upper case", "not_a_proof"] as const),
      { ...inclusion, path: path.map((hash) => hash.toUpperCase()) },
    ],
    [
      ...(["proof-without-head", "the proof has no signed tree head", "not_a_tree_head"] as const),
      { ...inclusion, head: head.treeHead },
    ],
    [
      ...(["proof-of-other-head", "the path leads to another tree head", "path_invalid"] as const),
      { ...inclusion, head: six },
    ],
    [
      "consistency-cut",
      "the first hash was removed",
      "path_invalid",
      { ...consistency, path: consistency.path.slice(1) },
    ],
    ["consistency-exchanged", "the tree heads were exchanged", "path_invalid", { ...consistency, from: head, to: six }],
    [
      ...(["consistency-rewritten", "the earlier tree head has another root", "path_invalid"] as const),
      { ...consistency, from: await buildHead(6, { root: changedRoot }) },
    ],
    [
      ...(["consistency-other-tree", "the tree heads belong to different trees", "trees_differ"] as const),
      { ...consistency, from: await buildHead(6, { treeId: TREE_ID.replaceAll("7", "8") }) },
    ],
  ];
  return [
    ...cases.map(([file, description, fault, document]) => toVector(file, description, document, { fault })),
    toVector("inclusion-unexpected", "the verifier holds another tree head", inclusion, {
      heads: ["head-of-six.json"],
      fault: "unexpected_tree_head",
    }),
  ];
}
