import { z } from "zod";
import { decodeUtf8 } from "../../../shared/runtime/decode-utf8.ts";
import { isCanonicalLine, parseJson, toCanonicalJson } from "../export/json.ts";
import type { Thumbprints } from "../export/verify-export.ts";
import type { LeafEvent } from "./leaves.ts";
import { computeConsistentRoots, computeRootOfLeaf, hashLeaf } from "./merkle-tree.ts";
import {
  hashSchema,
  isSignedTreeHead,
  type SignedTreeHead,
  type TreeHead,
  type TreeHeadFaultCode,
  verifyTreeHead,
} from "./tree-head.ts";

export const INCLUSION_PROOF_FORMAT = "clinic-service-audit-inclusion-proof/1";
export const CONSISTENCY_PROOF_FORMAT = "clinic-service-audit-consistency-proof/1";

/** Proof that an event is a leaf of the tree. Except for this event, it contains only hashes. */
export interface InclusionProof {
  format: typeof INCLUSION_PROOF_FORMAT;
  event: LeafEvent;
  /** Number of the leaf, counted from 0. */
  index: number;
  /** Hashes from the leaf to the root, in hex. */
  path: string[];
  head: SignedTreeHead;
}

export interface ConsistencyProof {
  format: typeof CONSISTENCY_PROOF_FORMAT;
  from: SignedTreeHead;
  to: SignedTreeHead;
  path: string[];
}

const pathSchema = z.array(hashSchema).max(64);

const inclusionProofSchema = z.strictObject({
  format: z.literal(INCLUSION_PROOF_FORMAT),
  event: z.looseObject({ position: z.string(), id: z.string() }),
  index: z.int().min(0),
  path: pathSchema,
  head: z.unknown(),
});

const consistencyProofSchema = z.strictObject({
  format: z.literal(CONSISTENCY_PROOF_FORMAT),
  from: z.unknown(),
  to: z.unknown(),
  path: pathSchema,
});

/** Code that says why a proof or a tree head is not accepted. docs/audit-format.md describes the codes. */
export type ProofFaultCode =
  | TreeHeadFaultCode
  | "not_a_proof"
  | "not_canonical"
  | "trees_differ"
  | "path_invalid"
  | "unexpected_tree_head";

interface ProofFault {
  fault: ProofFaultCode;
  problem: string;
}

export type VerifiedProof =
  | { kind: "tree-head"; treeHead: TreeHead }
  | { kind: "inclusion-proof"; treeHead: TreeHead; index: number; event: { position: string; id: string } }
  | { kind: "consistency-proof"; from: TreeHead; treeHead: TreeHead };

type ProofVerdict = ({ ok: true } & VerifiedProof) | ({ ok: false } & ProofFault);

/**
 * Verifies a file with a tree head, an inclusion proof or a consistency proof, using only the file and the trusted keys.
 *
 * @param expectedHeads tree heads that the verifier holds; each must be in the file
 */
export async function verifyProof(
  bytes: Uint8Array,
  trustedKeys: Thumbprints,
  expectedHeads: readonly TreeHead[] = [],
): Promise<ProofVerdict> {
  const text = decodeUtf8(bytes);
  const value = text === undefined ? undefined : parseJson(text);
  const verify = findVerifier(value);
  if (text === undefined || !verify)
    return { ok: false, fault: "not_a_proof", problem: "the file is neither a proof nor a tree head" };
  if (!isCanonicalLine(text, value))
    return { ok: false, fault: "not_canonical", problem: "the file is not in its canonical form" };
  const result = await verify(trustedKeys);
  if ("fault" in result) return { ok: false, ...result };
  const heads = "from" in result ? [result.from, result.treeHead] : [result.treeHead];
  const hasExpectedHeads = expectedHeads.every((expectedHead) => heads.some((head) => isSameState(head, expectedHead)));
  if (!hasExpectedHeads)
    return { ok: false, fault: "unexpected_tree_head", problem: "the file is about another tree head" };
  return { ok: true, ...result };
}

type Verify = (trustedKeys: Thumbprints) => Promise<VerifiedProof | ProofFault>;

/** Returns the function that verifies the kind of document; undefined for another value. */
function findVerifier(value: unknown): Verify | undefined {
  if (isSignedTreeHead(value)) return (trustedKeys) => verifySignedTreeHead(value, trustedKeys);
  if (inclusionProofSchema.safeParse(value).success) return (trustedKeys) => verifyInclusion(value, trustedKeys);
  if (consistencyProofSchema.safeParse(value).success) return (trustedKeys) => verifyConsistency(value, trustedKeys);
  return undefined;
}

async function verifySignedTreeHead(value: unknown, trustedKeys: Thumbprints): Promise<VerifiedProof | ProofFault> {
  const result = await verifyTreeHead(value, trustedKeys);
  return "fault" in result ? result : { kind: "tree-head", treeHead: result.treeHead };
}

async function verifyInclusion(value: unknown, trustedKeys: Thumbprints): Promise<VerifiedProof | ProofFault> {
  const { event, index, path, head } = inclusionProofSchema.parse(value);
  const result = await verifyTreeHead(head, trustedKeys);
  if ("fault" in result) return result;
  const { treeHead } = result;
  // The schema omits a member named `__proto__`, so the leaf is computed from the parsed value.
  const leafHash = hashLeaf(toCanonicalJson((value as { event: unknown }).event));
  const root = computeRootOfLeaf(leafHash, index, treeHead.size, fromHex(path));
  if (root?.toString("hex") !== treeHead.root)
    return { fault: "path_invalid", problem: "the event and the path do not lead to the root of the tree head" };
  return { kind: "inclusion-proof", treeHead, index, event: { position: event.position, id: event.id } };
}

async function verifyConsistency(value: unknown, trustedKeys: Thumbprints): Promise<VerifiedProof | ProofFault> {
  const { from, to, path } = consistencyProofSchema.parse(value);
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
