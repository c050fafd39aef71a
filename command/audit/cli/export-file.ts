import { formatCommandLine } from "../../../shared/command-line/format-command-line.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { exportClinic, exportQuerySchema } from "../export/export-clinic.ts";
import { createAuditSigner } from "../export/signing.ts";
import { OPERATOR_SCOPE } from "../queries/audit-query.ts";
import { requireNewFile, writeAtomically } from "./output-file.ts";
import { type CommandOptions, readQuery, withAuditedAccess } from "./queries.ts";
import { createProgressReporter } from "./scan-progress.ts";

/**
 * Writes a clinic's events and the signed manifest to a file that only its owner can read. The file appears only
 * when it is complete.
 */
export async function exportToFile(
  { actor, json, out, readLog, ...options }: CommandOptions & { out?: string | undefined; readLog: boolean },
  terminal: Terminal,
): Promise<void> {
  const query = readQuery(exportQuerySchema, options);
  const signer = await createAuditSigner(readConfig(["AUDIT_SIGNING_KEYS"], terminal.env));
  const file = out ?? `audit-${query.clinic}.ndjson`;
  requireNewFile(file);
  await withAuditedAccess(terminal, { actor, action: "export", query: options }, async (dependencies) => {
    const { client, index, context, accessId } = dependencies;
    const { signal } = new AbortController();
    const onProgress = createProgressReporter(terminal);
    const exportedBy = { type: context.actor.type, id: context.actor.id };
    const exportContext = { ...OPERATOR_SCOPE, signer, exportedBy, accessId, now: toInstant(context.now) };
    const lines = await exportClinic(query, { client, index, signal, onProgress, readsLog: readLog, ...exportContext });
    const lineCount = await writeAtomically(file, lines);
    const summary = { file, events: lineCount - 1, key: signer.thumbprint };
    const { clinic: clinicId, from = "start", to = exportContext.now } = query;
    const verifyCommand = `verify ${file} --key ${summary.key} --clinic ${clinicId} --from ${from} --to ${to}`;
    const text = `export: wrote ${formatCount(summary.events, "event")} to ${file}\nverify it with: ${formatCommandLine(`audit ${verifyCommand}`)}`;
    await terminal.writeOutput(json ? JSON.stringify(summary) : text);
  });
}
