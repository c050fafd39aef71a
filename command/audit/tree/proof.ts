import { z } from "zod";
import { decodeUtf8 } from "../../../shared/runtime/decode-utf8.ts";
import { isCanonicalLine, parseJson, toCanonicalJson } from "../export/json.ts";
import type { Fault, Thumbprints } from "../export/verify-export.ts";
import { computeConsistentRoots, computeRootOfLeaf, hashLeaf } from "./merkle-tree.ts";
import { hashSchema, signedTreeHeadSchema, type TreeHead, verifyTreeHead } from "./tree-head.ts";

export const INCLUSION_PROOF_FORMAT = "clinic-service-audit-inclusion-proof/1";
export const CONSISTENCY_PROOF_FORMAT = "clinic-service-audit-consistency-proof/1";

const pathSchema = z.array(hashSchema).max(64);

/** Proof that an event is a leaf of the tree. Besides the event and the tree head, it contains only hashes. */
const inclusionProofSchema = z.strictObject({
  format: z.literal(INCLUSION_PROOF_FORMAT),
  event: z.looseObject({ position: z.string(), id: z.string() }),
  /** Number of the leaf, counted from 0. */
  index: z.int().min(0),
  /** Hashes that lead from the leaf to the root, in hex. */
  path: pathSchema,
  head: z.unknown(),
});

/** Proof that the tree of a later head starts with the leaves of an earlier head. */
const consistencyProofSchema = z.strictObject({
  format: z.literal(CONSISTENCY_PROOF_FORMAT),
  from: z.unknown(),
  to: z.unknown(),
  path: pathSchema,
});

export type VerifiedProof =
  | { kind: "tree-head"; treeHead: TreeHead }
  | { kind: "inclusion-proof"; treeHead: TreeHead; index: number; event: { position: string; id: string } }
  | { kind: "consistency-proof"; from: TreeHead; treeHead: TreeHead };

type ProofVerdict = ({ ok: true } & VerifiedProof) | ({ ok: false } & Fault);

const documentSchema = z.union([signedTreeHeadSchema, inclusionProofSchema, consistencyProofSchema]);

/**
 * Verifies a file with a tree head, an inclusion proof or a consistency proof, using only the file and trusted keys.
 *
 * @param expectedHeads tree heads that the file must contain
 */
export async function verifyProof(
  bytes: Uint8Array,
  trustedKeys: Thumbprints,
  expectedHeads: readonly TreeHead[] = [],
): Promise<ProofVerdict> {
  const text = decodeUtf8(bytes);
  const value = text === undefined ? undefined : parseJson(text);
  const document = documentSchema.safeParse(value);
  if (text === undefined || !document.success)
    return { ok: false, fault: "not_a_proof", problem: "the file is neither a proof nor a tree head" };
  if (!isCanonicalLine(text, value))
    return { ok: false, fault: "not_canonical", problem: "the file is not in its canonical form" };
  const result = await verifyDocument(document.data, value, trustedKeys);
  if ("fault" in result) return { ok: false, ...result };
  const heads = "from" in result ? [result.from, result.treeHead] : [result.treeHead];
  const hasExpectedHeads = expectedHeads.every((expectedHead) => heads.some((head) => isSameState(head, expectedHead)));
  if (!hasExpectedHeads)
    return { ok: false, fault: "unexpected_tree_head", problem: "the file is about another tree head" };
  return { ok: true, ...result };
}

/** @param value the document before validation, which drops members named `__proto__` */
async function verifyDocument(
  document: z.infer<typeof documentSchema>,
  value: unknown,
  trustedKeys: Thumbprints,
): Promise<VerifiedProof | Fault> {
  if ("event" in document) {
    const leafHash = hashLeaf(toCanonicalJson((value as { event: unknown }).event));
    return verifyInclusion(document, leafHash, trustedKeys);
  }
  if ("path" in document) return verifyConsistency(document, trustedKeys);
  const result = await verifyTreeHead(document, trustedKeys);
  return "fault" in result ? result : { kind: "tree-head", treeHead: result.treeHead };
}

async function verifyInclusion(
  { event: { position, id }, index, path, head }: z.infer<typeof inclusionProofSchema>,
  leafHash: Buffer,
  trustedKeys: Thumbprints,
): Promise<VerifiedProof | Fault> {
  const result = await verifyTreeHead(head, trustedKeys);
  if ("fault" in result) return result;
  const { treeHead } = result;
  const root = computeRootOfLeaf(leafHash, index, treeHead.size, fromHex(path));
  if (root?.toString("hex") !== treeHead.root)
    return { fault: "path_invalid", problem: "the event and the path do not lead to the root of the tree head" };
  return { kind: "inclusion-proof", treeHead, index, event: { position, id } };
}

async function verifyConsistency(
  { from, to, path }: z.infer<typeof consistencyProofSchema>,
  trustedKeys: Thumbprints,
): Promise<VerifiedProof | Fault> {
  const [fromResult, toResult] = [await verifyTreeHead(from, trustedKeys), await verifyTreeHead(to, trustedKeys)];
  if ("fault" in fromResult) return fromResult;
  if ("fault" in toResult) return toResult;
  const [fromHead, toHead] = [fromResult.treeHead, toResult.treeHead];
  if (fromHead.treeId !== toHead.treeId)
    return { fault: "trees_differ", problem: "the tree heads belong to different trees" };
  const fromRoot = Buffer.from(fromHead.root, "hex");
  const roots = computeConsistentRoots(fromHead.size, fromRoot, toHead.size, fromHex(path));
  if (roots?.fromRoot.toString("hex") !== fromHead.root || roots.toRoot.toString("hex") !== toHead.root)
    return { fault: "path_invalid", problem: "the path does not lead from one tree head to the other" };
  return { kind: "consistency-proof", from: fromHead, treeHead: toHead };
}

const fromHex = (path: readonly string[]) => path.map((hash) => Buffer.from(hash, "hex"));

function isSameState(left: TreeHead, right: TreeHead): boolean {
  return left.treeId === right.treeId && left.size === right.size && left.root === right.root;
}
