import { formatCommandLine } from "../../../shared/runtime/command-line.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createOperatorContext, requireOperator, withEventLog } from "../../cli/framework/operator.ts";
import { createAuditSigner } from "../export/signing.ts";
import { type PublishOptions, publishTreeHead } from "../tree/publish-tree-head.ts";
import { formatDocument, type SignedTreeHead } from "../tree/tree-head.ts";
import { NotFoundError } from "./failure.ts";
import { requireNewFile, writeAtomically } from "./output-file.ts";
import { createProgressReporter } from "./scan-progress.ts";
import type { AuditTerminal } from "./terminal.ts";

/** Options of the command `tree-head`. */
export interface TreeHeadOptions {
  actor?: string;
  newTree?: boolean;
  out?: string;
}

/**
 * Publishes a signed tree head if the log has new events, and prints the last tree head or writes it to a file.
 *
 * @throws {NotFoundError} if the log has no events
 */
export async function showTreeHead({ actor, newTree, out }: TreeHeadOptions, terminal: AuditTerminal): Promise<void> {
  const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], terminal.env));
  if (out !== undefined) requireNewFile(out);
  const operator = requireOperator(terminal.env, actor);
  const progressReporter = createProgressReporter(terminal);
  const head = await withEventLog(terminal.env, (log, client) => {
    const { signal } = new AbortController();
    const context = createOperatorContext(operator, Date.now());
    const options = { log, client, signer, context, signal, onProgress: progressReporter.show };
    return publishAll({ ...options, isNewTree: newTree === true });
  }).finally(() => progressReporter.end());
  if (!head) throw new NotFoundError("the event log contains no events, so there is no tree head");
  if (out === undefined) return terminal.write(formatDocument(head));
  await writeAtomically(out, [formatDocument(head)]);
  const { size, at } = head.treeHead;
  const verifyCommand = formatCommandLine(`audit verify-proof ${out} --key ${signer.thumbprint}`);
  await terminal.write(`tree head of ${size} events, ${at}: ${out}\nverify it with: ${verifyCommand}\n`);
}

/** Publishes tree heads until the last one covers the log. */
async function publishAll(options: PublishOptions): Promise<SignedTreeHead | undefined> {
  const { head, isComplete } = await publishTreeHead(options);
  return isComplete ? head : publishAll({ ...options, isNewTree: false });
}
