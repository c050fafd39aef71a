import type { EventStoreDBClient } from "@eventstore/db-client";
import { RefusedError } from "../../../shared/command-line/failure.ts";
import { formatCommandLine } from "../../../shared/command-line/format-command-line.ts";
import { requireOperator } from "../../../shared/command-line/operator.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { readEventAt } from "../../../shared/eventstore/read-log.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { recordAccess } from "../access/record-access.ts";
import { getClinicIds } from "../access/visibility.ts";
import { type AuditSigner, createAuditSigner } from "../export/signing.ts";
import { type AuditEvent, toLogEvent } from "../log/audit-event.ts";
import { isLeaf } from "../tree/leaves.ts";
import type { ConsistencyProof, InclusionProof } from "../tree/proof.ts";
import { type ProveOptions, proveConsistency, proveInclusion, proveInclusionOf } from "../tree/prove.ts";
import { findPublishedHead } from "../tree/published-heads.ts";
import { formatDocument, type SignedTreeHead } from "../tree/tree-head.ts";
import { requireNewFile, writeAtomically } from "./output-file.ts";
import { createProgressReporter } from "./scan-progress.ts";
import { readTreeHeadFile } from "./verify-file.ts";

interface ProofSources {
  log: EventLog;
  /** Reads a tree head from a file, or from the log if the file is undefined. */
  getHead(file: string | undefined): Promise<SignedTreeHead>;
  options: ProveOptions;
}

/** Proves that an event is in the tree of a head. The access is recorded before the proof is written. */
export async function proveEvent(
  options: {
    event: string;
    position?: string | undefined;
    head?: string | undefined;
    out?: string | undefined;
    actor?: string | undefined;
  },
  terminal: Terminal,
): Promise<void> {
  const { actor, out, head: headFile, event: eventId, position } = options;
  const operator = requireOperator(terminal.env, actor);
  await writeProof(out, terminal, async ({ log, getHead, options: proveOptions }) => {
    const head = await getHead(headFile);
    const event = position === undefined ? undefined : await requireEvent(proveOptions, BigInt(position), eventId);
    const proof = event
      ? await proveInclusionOf(event, head, proveOptions)
      : await proveInclusion(({ id }) => id === eventId, head, proveOptions);
    if (!proof) throw new RefusedError(`the tree of this tree head does not contain event ${eventId}`);
    const access = { auditorId: null, action: "prove-inclusion", query: { event: eventId } } as const;
    const context = createOperatorContext(operator, Date.now());
    await recordAccess(log, { ...access, clinicIds: getClinicIds(proof.event) }, context);
    return proof;
  });
}

async function requireEvent({ client }: ProveOptions, position: bigint, eventId: string): Promise<AuditEvent> {
  const storedEvent = await readEventAt(client, position);
  const event = storedEvent && toLogEvent(storedEvent, position).auditEvent;
  if (event?.id === eventId && isLeaf(event)) return event;
  throw new RefusedError(`position ${position} of the event log does not contain event ${eventId} of this service`);
}

/** Proves that the tree of a later head starts with the leaves of an earlier head. */
export async function proveExtension(
  options: { from: string; to?: string | undefined; out?: string | undefined; readLog: boolean },
  terminal: Terminal,
): Promise<void> {
  const { from, to, out, readLog } = options;
  await writeProof(out, terminal, async ({ getHead, options: { tilesDirectory, ...proveOptions } }) =>
    proveConsistency(await getHead(from), await getHead(to), {
      ...proveOptions,
      tilesDirectory: readLog ? undefined : tilesDirectory,
    }),
  );
}

async function writeProof(
  file: string | undefined,
  terminal: Terminal,
  computeProof: (sources: ProofSources) => Promise<InclusionProof | ConsistencyProof | undefined>,
): Promise<void> {
  const config = readConfig(["AUDIT_SIGNING_KEYS", "AUDIT_TILES_DIR"], terminal.env);
  const signer = await createAuditSigner(config);
  if (file !== undefined) requireNewFile(file);
  const onProgress = createProgressReporter(terminal);
  const proof = await withEventLog(terminal.env, (log, client) => {
    const onTileProblem = (problem: string) => void terminal.writeError(`audit: ${problem}`);
    const { signal } = new AbortController();
    const options = { client, signal, onProgress, tilesDirectory: config.AUDIT_TILES_DIR, onTileProblem };
    const getHead = (headFile: string | undefined) =>
      headFile === undefined ? requireLastHead(client, signer) : readTreeHeadFile(headFile, signer.getTrustedKey);
    return computeProof({ log, getHead, options });
  });
  if (!proof) return;
  if (file === undefined) return terminal.writeOutput(formatDocument(proof).trimEnd());
  await writeAtomically(file, [formatDocument(proof)]);
  const verifyCommand = formatCommandLine(`audit verify-proof ${file} --key ${signer.thumbprint}`);
  await terminal.writeOutput(`wrote the proof to ${file}\nverify it with: ${verifyCommand}`);
}

async function requireLastHead(client: EventStoreDBClient, signer: AuditSigner) {
  const head = await findPublishedHead(client, undefined, signer.getTrustedKey);
  if (head) return head;
  throw new RefusedError(
    `there is no published tree head; publish one with \`${formatCommandLine("audit tree-head")}\``,
  );
}
