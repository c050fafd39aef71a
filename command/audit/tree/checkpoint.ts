import { createHash } from "node:crypto";
import type { AuditSigner } from "../export/signing.ts";
import type { TreeHead } from "./tree-head.ts";

/** Signature type of Ed25519 in signed notes (C2SP signed-note). */
const ED25519 = Buffer.from([0x01]);

/** Returns the origin of a tree's checkpoints, which is also the name of the signing key. A new tree has a new origin. */
export function toOrigin(treeId: string): string {
  return `clinic-service-audit/${treeId}`;
}

/** Returns a tree head as a checkpoint (C2SP tlog-checkpoint), which witnesses can read: a signed note. */
export async function formatCheckpoint(
  { treeId, size, root }: Pick<TreeHead, "treeId" | "size" | "root">,
  signer: AuditSigner,
): Promise<string> {
  const origin = toOrigin(treeId);
  const text = `${origin}\n${size}\n${Buffer.from(root, "hex").toString("base64")}\n`;
  const signature = Buffer.concat([computeKeyId(origin, signer.publicKey), await signer.signBytes(Buffer.from(text))]);
  return `${text}\n— ${origin} ${signature.toString("base64")}\n`;
}

/** Returns the key that verifies a tree's checkpoints, in the form of signed notes (vkey). */
export function formatVerifierKey(treeId: string, { publicKey }: Pick<AuditSigner, "publicKey">): string {
  const origin = toOrigin(treeId);
  const key = Buffer.concat([ED25519, publicKey]).toString("base64");
  return `${origin}+${computeKeyId(origin, publicKey).toString("hex")}+${key}`;
}

function computeKeyId(name: string, publicKey: Buffer): Buffer {
  return createHash("sha256").update(`${name}\n`).update(ED25519).update(publicKey).digest().subarray(0, 4);
}

/** Returns the size in a checkpoint; undefined for other text. Does not verify the signature. */
export function readCheckpointSize(checkpoint: string): number | undefined {
  const size = Number(/^[^\n]+\n([1-9]\d{0,15})\n/.exec(checkpoint)?.[1]);
  return Number.isSafeInteger(size) ? size : undefined;
}
