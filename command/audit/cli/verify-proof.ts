import type { TreeHead } from "../tree/tree-head.ts";
import { type VerifiedProof, verifyProof } from "../tree/verify-proof.ts";
import { NotVerifiedError } from "./failure.ts";
import type { AuditTerminal } from "./terminal.ts";
import { readInputFile, readTreeHeadFile } from "./tree-head-file.ts";
import { loadTrustedKeys } from "./verify-file.ts";

/** Options of the command `verify-proof`. */
export interface VerifyProofOptions {
  key: string;
  head?: string[];
  json?: boolean;
}

/**
 * Verifies a tree head or a proof using only files and the key.
 *
 * @throws {InputError} for an unreadable file, an invalid key or an invalid expected tree head
 * @throws {NotVerifiedError}
 */
export async function verifyProofFile(
  file: string,
  { key, head: headFiles = [], json }: VerifyProofOptions,
  terminal: AuditTerminal,
): Promise<void> {
  const getTrustedKey = await loadTrustedKeys(key);
  const expectedHeads: TreeHead[] = [];
  for (const headFile of headFiles) expectedHeads.push((await readTreeHeadFile(headFile, getTrustedKey)).treeHead);
  const verdict = await verifyProof(readInputFile(file), getTrustedKey, expectedHeads);
  if (json) await terminal.write(`${JSON.stringify(verdict)}\n`);
  if (!verdict.ok) throw new NotVerifiedError(`${file} is not verified: ${verdict.problem}`);
  if (!json) await terminal.write(`${file} is verified: ${describeProof(verdict)}\n`);
}

function describeProof(proof: VerifiedProof): string {
  const head = describeHead(proof.treeHead);
  switch (proof.kind) {
    case "tree-head":
      return head;
    case "inclusion-proof":
      return `event ${proof.event.id} is event ${proof.index + 1} of the ${head}`;
    case "consistency-proof":
      return `the ${head} starts with all events of the ${describeHead(proof.from)}`;
  }
}

function describeHead({ size, at, treeId }: TreeHead): string {
  return `tree head of ${size} events, ${at}, tree ${treeId}`;
}
