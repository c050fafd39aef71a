import { InputError, RefusedError } from "../../../shared/command-line/failure.ts";
import { formatCommandLine } from "../../../shared/command-line/format-command-line.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { requireOperator } from "../../../shared/command-line/operator.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createOperatorContext, withEventLog } from "../../handling/operator.ts";
import { createAuditSigner } from "../export/signing.ts";
import { type PublishOptions, publishTreeHead } from "../tree/publish-tree-head.ts";
import { TileError } from "../tree/tiled-tree.ts";
import { formatDocument, type SignedTreeHead } from "../tree/tree-head.ts";
import { writeTiles } from "../tree/write-tiles.ts";
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
  const config = readConfig(["AUDIT_SIGNING_KEYS", "AUDIT_TILES_DIR"], terminal.env);
  const signer = await createAuditSigner(config);
  if (out !== undefined) requireNewFile(out);
  const operator = requireOperator(terminal.env, actor);
  const onProgress = createProgressReporter(terminal);
  const head = await withEventLog(terminal.env, async (log, client) => {
    const { signal } = new AbortController();
    const context = createOperatorContext(operator, Date.now());
    const options = { log, client, signer, context, signal, onProgress };
    const lastHead = await publishAll({ ...options, isNewTree: newTree });
    const directory = config.AUDIT_TILES_DIR;
    if (directory !== undefined) await writeTiles({ ...options, directory }).catch(toDirectoryError);
    return lastHead;
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

function toDirectoryError(error: NodeJS.ErrnoException): never {
  if (!error.path && !(error instanceof TileError)) throw error;
  throw new InputError(`the tree head is published, but AUDIT_TILES_DIR cannot be written: ${error.message}`);
}

async function publishAll(options: PublishOptions): Promise<SignedTreeHead | undefined> {
  const { head, isComplete } = await publishTreeHead(options);
  return isComplete ? head : publishAll({ ...options, isNewTree: false });
}
