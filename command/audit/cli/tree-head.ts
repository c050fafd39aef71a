import { RefusedError } from "../../../shared/command-line/failure.ts";
import { formatCommandLine, suggestNext } from "../../../shared/command-line/format-command-line.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { requireOperator } from "../../../shared/command-line/operator.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { createAuditSigner } from "../export/signing.ts";
import { AuditIndex } from "../index/audit-index.ts";
import { rebuildIndex } from "../index/rebuild-index.ts";
import { publishTreeHead } from "../tree/publish-tree-head.ts";
import { formatDocument } from "../tree/tree-head.ts";
import { verifyIndex } from "../tree/verify-index.ts";
import { requireNewFile, writeAtomically } from "./output-file.ts";
import { createProgressReporter } from "./scan-progress.ts";

interface TreeHeadOptions {
  actor?: string | undefined;
  newTree: boolean;
  out?: string | undefined;
}

/**
 * Publishes a signed tree head if the log has new events, and prints the last tree head or writes it to a file.
 *
 * @throws {InputError} if the file exists
 * @throws {RefusedError} if the log has no events
 */
export async function showTreeHead({ actor, newTree, out }: TreeHeadOptions, terminal: Terminal): Promise<void> {
  const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], terminal.env));
  if (out !== undefined) requireNewFile(out);
  const operator = requireOperator(terminal.env, actor);
  const onProgress = createProgressReporter(terminal);
  const { head } = await withEventLog(terminal.env, (log, client, _, openPool) => {
    const { signal } = new AbortController();
    const context = createOperatorContext(operator, Date.now());
    const indexOptions = { pool: openPool(), index: new AuditIndex(openPool), signal, onProgress };
    return publishTreeHead({ log, client, signer, context, ...indexOptions, isNewTree: newTree });
  });
  if (!head) throw new RefusedError("the event log contains no events, so there is no tree head");
  if (out === undefined) return terminal.writeOutput(formatDocument(head).trimEnd());
  await writeAtomically(out, [formatDocument(head)]);
  const { size, at } = head.treeHead;
  const verifyCommand = formatCommandLine(`audit verify-proof ${out} --key ${signer.thumbprint}`);
  await terminal.writeOutput(
    `tree head of ${formatCount(size, "event")}, ${at}: ${out}\nverify it with: ${verifyCommand}`,
  );
}

/** Enough for rows of events with many ids. While the new tables are filled, Postgres has no statistics of them. */
const REBUILD_POOL_OPTIONS = { size: 3, statementTimeoutMs: 60_000, shouldPreferIndexes: true };

/**
 * Rebuilds the index next to the live one.
 *
 * @throws {TreeHeadError} if the new index does not have the tree of the published heads
 */
export async function showRebuild({ newTree: isNewTree }: { newTree: boolean }, terminal: Terminal): Promise<void> {
  const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], terminal.env));
  const onProgress = createProgressReporter(terminal);
  const onBlocked = () => terminal.writeError("audit: a statement still uses the live index; waiting for its end");
  const { position, leafCount } = await withEventLog(
    terminal.env,
    (_log, client, _dataKeys, openPool) =>
      rebuildIndex({ client, signer, pool: openPool(), isNewTree, onProgress, onBlocked }),
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
  const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], terminal.env));
  const onProgress = createProgressReporter(terminal);
  const verified = await withEventLog(terminal.env, (_log, client, _dataKeys, openPool) => {
    const { signal } = new AbortController();
    return verifyIndex({ client, signer, pool: openPool(), index: new AuditIndex(openPool), signal, onProgress });
  });
  await terminal.writeOutput(
    `the index equals the log up to position ${verified?.position}, with ${formatCount(verified?.leafCount ?? 0, "event")} in the tree`,
  );
}
