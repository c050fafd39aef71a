import { RefusedError } from "../../../shared/command-line/failure.ts";
import { formatCommandLine, suggestNext } from "../../../shared/command-line/format-command-line.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { requireOperator } from "../../../shared/command-line/operator.ts";
import { createProgressBar } from "../../../shared/command-line/progress-bar.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { recordAccess } from "../access/record-access.ts";
import { getClinicIds } from "../access/visibility.ts";
import { createAuditSigner } from "../export/signing.ts";
import { AuditIndex } from "../index/audit-index.ts";
import { rebuildIndex } from "../index/rebuild-index.ts";
import type { ScanProgress } from "../log/scan.ts";
import { findLeafEvent, proveConsistency, proveInclusion } from "../tree/prove.ts";
import { type PublishOptions, publishTreeHead, verifyIndex } from "../tree/publish-tree-head.ts";
import { findPublishedHead } from "../tree/published-heads.ts";
import { formatDocument, type SignedTreeHead } from "../tree/tree-head.ts";
import { requireNewFile, writeAtomically } from "./output-file.ts";
import { readTreeHeadFile } from "./verify-file.ts";

/** Creates a function that shows the progress of a scan of the log on standard error. */
export function createProgressReporter(terminal: Terminal) {
  const bar = createProgressBar("audit", 1, terminal);
  return ({ read, share }: ScanProgress) => bar.show(share, `${formatCount(read, "event")} read`);
}

type TreeSources = Omit<PublishOptions, "context"> & { onProgress: ReturnType<typeof createProgressReporter> };

async function withTree<Result>(
  terminal: Terminal,
  run: (sources: TreeSources) => Promise<Result>,
  poolOptions?: Parameters<typeof withEventLog>[2],
): Promise<Result> {
  const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], terminal.env));
  const { signal } = new AbortController();
  const onProgress = createProgressReporter(terminal);
  return withEventLog(
    terminal.env,
    (log, client, _dataKeys, openPool) => {
      const pool = openPool();
      return run({ log, client, pool, index: new AuditIndex(() => pool), signer, signal, onProgress });
    },
    poolOptions,
  );
}

/**
 * Prints a tree head or a proof, or writes it to a file.
 *
 * @param create returns the document, and the text that is printed before the name of the file
 * @throws {InputError} if the file exists
 */
async function showDocument(
  file: string | undefined,
  terminal: Terminal,
  create: (sources: TreeSources) => Promise<{ document: object; description: string }>,
): Promise<void> {
  if (file !== undefined) requireNewFile(file);
  const { document, description, thumbprint } = await withTree(terminal, async (sources) => {
    return { ...(await create(sources)), thumbprint: sources.signer.thumbprint };
  });
  if (file === undefined) return terminal.writeOutput(formatDocument(document).trimEnd());
  await writeAtomically(file, [formatDocument(document)]);
  const verifyCommand = formatCommandLine(`audit verify-proof ${file} --key ${thumbprint}`);
  await terminal.writeOutput(`${description} ${file}\nverify it with: ${verifyCommand}`);
}

/**
 * Publishes a signed tree head if the log has new events, and shows the last tree head.
 *
 * @throws {RefusedError} if the log has no events
 */
export async function showTreeHead(
  { actor, newTree: isNewTree, out }: { actor?: string | undefined; newTree: boolean; out?: string | undefined },
  terminal: Terminal,
): Promise<void> {
  const operator = requireOperator(terminal.env, actor);
  await showDocument(out, terminal, async (sources) => {
    const context = createOperatorContext(operator, Date.now());
    const { head } = await publishTreeHead({ ...sources, context, isNewTree });
    if (!head) throw new RefusedError("the event log contains no events, so there is no tree head");
    const { size, at } = head.treeHead;
    return { document: head, description: `tree head of ${formatCount(size, "event")}, ${at}:` };
  });
}

/** Shows a proof that an event is in the tree of a tree head. Records the access before it shows the proof. */
export async function proveEvent(
  options: { event: string; head?: string | undefined; out?: string | undefined; actor?: string | undefined },
  terminal: Terminal,
): Promise<void> {
  const { actor, out, head: headFile, event: eventId } = options;
  const operator = requireOperator(terminal.env, actor);
  await showDocument(out, terminal, async (sources) => {
    const head = await getHead(headFile, sources);
    const leaf = await findLeafEvent(sources, { eventId });
    if (!leaf || leaf.number >= head.treeHead.size)
      throw new RefusedError(`the tree of this tree head does not contain event ${eventId}`);
    const document = await proveInclusion(sources.index, leaf, head);
    const access = { auditorId: null, action: "prove-inclusion", query: { event: eventId } } as const;
    const context = createOperatorContext(operator, Date.now());
    await recordAccess(sources.log, { ...access, clinicIds: getClinicIds(leaf.event) }, context);
    return { document, description: "wrote the proof to" };
  });
}

/** Shows a proof that the tree of a later tree head starts with the leaves of an earlier tree head. */
export async function proveExtension(
  { from, to, out }: { from: string; to?: string | undefined; out?: string | undefined },
  terminal: Terminal,
): Promise<void> {
  await showDocument(out, terminal, async (sources) => {
    const [fromHead, toHead] = [await getHead(from, sources), await getHead(to, sources)];
    const document = await proveConsistency(sources.index, fromHead, toHead);
    return { document, description: "wrote the proof to" };
  });
}

/** Reads a tree head from a file. If no file is given, reads the last published tree head from the log. */
async function getHead(file: string | undefined, { client, signer }: TreeSources): Promise<SignedTreeHead> {
  if (file !== undefined) return readTreeHeadFile(file, signer.trustedKeys);
  const head = await findPublishedHead(client, undefined, signer.trustedKeys);
  if (head) return head;
  throw new RefusedError(
    `there is no published tree head; publish one with \`${formatCommandLine("audit tree-head")}\``,
  );
}

/** Events with many ids need the long timeout. Indexes are preferred, because the new tables have no statistics. */
const REBUILD_POOL_OPTIONS = { size: 3, statementTimeoutMs: 60_000, shouldPreferIndexes: true };

/**
 * Rebuilds the audit index while the live index stays in use, and prints the result.
 *
 * @throws {TreeHeadError} if the tree of the new index does not match the published tree heads
 */
export async function showRebuild({ newTree: isNewTree }: { newTree: boolean }, terminal: Terminal): Promise<void> {
  const onBlocked = () => terminal.writeError("audit: a statement still uses the live index; waiting for its end");
  const { position, leafCount } = await withTree(
    terminal,
    (sources) => rebuildIndex({ ...sources, isNewTree, onBlocked }),
    REBUILD_POOL_OPTIONS,
  );
  await terminal.writeOutput(
    `the audit index was rebuilt up to position ${position}, with ${formatCount(Number(leafCount), "event")} in the tree`,
  );
  if (isNewTree) await suggestNext(terminal, false, "audit tree-head --new-tree");
}

/**
 * Compares the whole index with the log and the published tree heads, and prints what was compared.
 *
 * @throws {IndexDamagedError} at the first difference
 */
export async function showVerification(_options: object, terminal: Terminal): Promise<void> {
  const verified = await withTree(terminal, verifyIndex);
  await terminal.writeOutput(
    `the index equals the log up to position ${verified?.position}, with ${formatCount(verified?.leafCount ?? 0, "event")} in the tree`,
  );
}
