import type { EventStoreDBClient } from "@eventstore/db-client";
import { RefusedError } from "../../../shared/command-line/failure.ts";
import { formatCommandLine } from "../../../shared/command-line/format-command-line.ts";
import { requireOperator } from "../../../shared/command-line/operator.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { recordAccess } from "../access/record-access.ts";
import { getClinicIds } from "../access/visibility.ts";
import { type AuditSigner, createAuditSigner } from "../export/signing.ts";
import { AuditIndex } from "../index/audit-index.ts";
import type { IndexedLog } from "../index/read-rows.ts";
import type { ConsistencyProof, InclusionProof } from "../tree/proof.ts";
import { proveConsistency, proveInclusion, readLeafEvent } from "../tree/prove.ts";
import { findPublishedHead } from "../tree/published-heads.ts";
import { formatDocument, type SignedTreeHead } from "../tree/tree-head.ts";
import { requireNewFile, writeAtomically } from "./output-file.ts";
import { readTreeHeadFile } from "./verify-file.ts";

interface ProofSources extends IndexedLog {
  log: EventLog;
  /** Reads a tree head from a file, or from the log if the file is undefined. */
  getHead(file: string | undefined): Promise<SignedTreeHead>;
}

/** Writes the proof that the tree of a head contains an event. Records the access first. */
export async function proveEvent(
  options: { event: string; head?: string | undefined; out?: string | undefined; actor?: string | undefined },
  terminal: Terminal,
): Promise<void> {
  const { actor, out, head: headFile, event: eventId } = options;
  const operator = requireOperator(terminal.env, actor);
  await writeProof(out, terminal, async ({ log, client, index, getHead }) => {
    const head = await getHead(headFile);
    await index.awaitLogEnd(client);
    const leaf = await index.findLeaf({ eventId });
    const event = leaf && (await readLeafEvent(client, leaf));
    if (!event || leaf.number >= head.treeHead.size)
      throw new RefusedError(`the tree of this tree head does not contain event ${eventId}`);
    const proof = await proveInclusion(index, event, leaf.number, head);
    const access = { auditorId: null, action: "prove-inclusion", query: { event: eventId } } as const;
    const context = createOperatorContext(operator, Date.now());
    await recordAccess(log, { ...access, clinicIds: getClinicIds(event) }, context);
    return proof;
  });
}

/** Proves that the tree of a later head starts with the leaves of an earlier head. */
export async function proveExtension(
  { from, to, out }: { from: string; to?: string | undefined; out?: string | undefined },
  terminal: Terminal,
): Promise<void> {
  await writeProof(out, terminal, async ({ index, getHead }) =>
    proveConsistency(index, await getHead(from), await getHead(to)),
  );
}

async function writeProof(
  file: string | undefined,
  terminal: Terminal,
  computeProof: (sources: ProofSources) => Promise<InclusionProof | ConsistencyProof>,
): Promise<void> {
  const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], terminal.env));
  if (file !== undefined) requireNewFile(file);
  const proof = await withEventLog(terminal.env, (log, client, _, openPool) => {
    const getHead = (headFile: string | undefined) =>
      headFile === undefined ? requireLastHead(client, signer) : readTreeHeadFile(headFile, signer.trustedKeys);
    return computeProof({ log, client, index: new AuditIndex(openPool), getHead });
  });
  if (file === undefined) return terminal.writeOutput(formatDocument(proof).trimEnd());
  await writeAtomically(file, [formatDocument(proof)]);
  const verifyCommand = formatCommandLine(`audit verify-proof ${file} --key ${signer.thumbprint}`);
  await terminal.writeOutput(`wrote the proof to ${file}\nverify it with: ${verifyCommand}`);
}

async function requireLastHead(client: EventStoreDBClient, signer: AuditSigner) {
  const head = await findPublishedHead(client, undefined, signer.trustedKeys);
  if (head) return head;
  throw new RefusedError(
    `there is no published tree head; publish one with \`${formatCommandLine("audit tree-head")}\``,
  );
}
