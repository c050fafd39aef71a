import { z } from "zod";
import { isCanonicalLine, parseJson, toCanonicalJson } from "../export/json.ts";
import { type AuditSigner, SIGNATURE_TYPES } from "../export/signing.ts";
import { type Fault, type Thumbprints, verifySignature } from "../export/verify-export.ts";

const TREE_HEAD_FORMAT = "clinic-service-audit-tree-head/1";

export const hashSchema = z.string().regex(/^[0-9a-f]{64}$/, "must be a SHA-256 hash in hex");

/** Head of the Merkle tree over the log at a time. A tree head names no clinic and contains no event data. */
const treeHeadSchema = z.strictObject({
  format: z.literal(TREE_HEAD_FORMAT),
  treeId: z.guid().lowercase(),
  size: z.int().min(1),
  root: hashSchema,
  logPosition: z.string().regex(/^\d+$/, "must be a log position"),
  at: z.iso.datetime({ precision: 3 }),
});
export type TreeHead = z.infer<typeof treeHeadSchema>;

/** A tree head and its signature (JWS). The signed payload is the tree head as canonical JSON. */
export interface SignedTreeHead {
  treeHead: TreeHead;
  signature: string;
}

/** Form of a tree head with its signature, before the signature is verified. */
export const signedTreeHeadSchema = z.strictObject({ treeHead: z.unknown(), signature: z.string() });

export async function signTreeHead(
  signer: Pick<AuditSigner, "sign">,
  fields: Omit<TreeHead, "format">,
): Promise<SignedTreeHead> {
  const treeHead = { format: TREE_HEAD_FORMAT, ...fields } as const;
  return { treeHead, signature: await signer.sign(toCanonicalJson(treeHead), SIGNATURE_TYPES.treeHead) };
}

/** Returns the content of a file with a tree head or a proof: its canonical JSON and a line feed. */
export function formatDocument(document: object): string {
  return `${toCanonicalJson(document)}\n`;
}

/**
 * Verifies the signature of a tree head, and that the unsigned copy in `treeHead` equals the signed tree head.
 *
 * @param value parsed JSON
 */
export async function verifyTreeHead(value: unknown, trustedKeys: Thumbprints): Promise<SignedTreeHead | Fault> {
  const parseResult = signedTreeHeadSchema.safeParse(value);
  if (!parseResult.success)
    return { fault: "not_a_tree_head", problem: "there is no tree head with a signature where one is expected" };
  const { treeHead, signature } = parseResult.data;
  const signedHead = await readSignedTreeHead(signature, trustedKeys);
  if ("fault" in signedHead) return signedHead;
  if (!isCanonicalLine(formatDocument(signedHead.treeHead), treeHead))
    return { fault: "tree_head_altered", problem: "the tree head differs from the signed tree head" };
  return signedHead;
}

/** Verifies the signature of a tree head, and reads the tree head from it. */
export async function readSignedTreeHead(signature: string, trustedKeys: Thumbprints): Promise<SignedTreeHead | Fault> {
  const verifiedSignature = await verifySignature(signature, SIGNATURE_TYPES.treeHead, trustedKeys);
  if ("fault" in verifiedSignature) return verifiedSignature;
  const parseResult = treeHeadSchema.safeParse(parseJson(verifiedSignature.text));
  if (!parseResult.success || !isCanonicalLine(`${verifiedSignature.text}\n`, parseResult.data))
    return { fault: "tree_head_unsupported", problem: "the tree head has a format that this release does not support" };
  return { treeHead: parseResult.data, signature };
}
