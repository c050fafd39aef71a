import fs from "node:fs";
import { pipeline } from "node:stream/promises";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { formatCommandLine } from "../../../shared/runtime/command-line.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { InputError } from "../../cli/framework/failure.ts";
import { loadAggregate } from "../../handling/handle.ts";
import { exportClinic, exportQuerySchema, findFutureParameter } from "../export/export-clinic.ts";
import { createExportSigner } from "../export/signing.ts";
import { type CommandOptions, readQuery, withAuditedAccess } from "./audited-query.ts";
import { NotFoundError } from "./failure.ts";
import { createProgressReporter } from "./scan-progress.ts";
import type { AuditTerminal } from "./terminal.ts";

/**
 * Writes a clinic's events and the signed manifest to a file that only its owner can read. The file appears only
 * when it is complete.
 */
export async function exportToFile(
  { actor, json, out, ...options }: CommandOptions & { out?: string },
  terminal: AuditTerminal,
): Promise<void> {
  const query = readQuery(exportQuerySchema, options);
  const signer = await createExportSigner(readConfig(["AUDIT_SIGNING_KEYS"], terminal.env));
  const file = out ?? `audit-${query.clinic}.ndjson`;
  if (fs.existsSync(file)) throw new InputError(`--out ${file} already exists; choose another file`);
  await withAuditedAccess(terminal, { actor, action: "export", query: options }, async (dependencies) => {
    const { client, log, context, accessId } = dependencies;
    const futureParameter = findFutureParameter(query, context.now);
    if (futureParameter) throw new InputError(`--${futureParameter} must not be in the future`);
    await requireClinic(log, query.clinic);
    const { signal } = new AbortController();
    const progressReporter = createProgressReporter(terminal);
    const exportedBy = { type: context.actor.type, id: context.actor.id };
    const exportContext = { signer, exportedBy, accessId, now: toInstant(context.now) };
    const lines = await exportClinic(query, { client, signal, onProgress: progressReporter.show, ...exportContext });
    const lineCount = await writeAtomically(file, lines).finally(() => progressReporter.end());
    const summary = { file, events: lineCount - 1, key: signer.thumbprint };
    const { clinic: clinicId, from = "start", to = exportContext.now } = query;
    const verifyCommand = `verify ${file} --key ${summary.key} --clinic ${clinicId} --from ${from} --to ${to}`;
    const text = `export: wrote ${summary.events} events to ${file}\nverify it with: ${formatCommandLine(`audit ${verifyCommand}`)}`;
    await terminal.write(`${json ? JSON.stringify(summary) : text}\n`);
  });
}

async function requireClinic(log: EventLog, clinicId: string): Promise<void> {
  if (!(await loadAggregate(log, clinicAggregate, clinicId)).state)
    throw new NotFoundError(`clinic ${clinicId} does not exist`);
}

/**
 * Writes lines to a temporary file and gives the file its final name when it is complete. An existing file is never
 * overwritten.
 *
 * @returns the number of lines
 */
async function writeAtomically(file: string, lines: AsyncIterable<string>): Promise<number> {
  const partFile = `${file}.part`;
  const fd = openPartFile(file, partFile);
  let lineCount = 0;
  const countLines = async function* () {
    for await (const line of lines) {
      lineCount += 1;
      yield line;
    }
  };
  try {
    await pipeline(countLines, fs.createWriteStream(partFile, { fd, flush: true }));
    // Unlike `rename`, `link` fails if another process has created the file in the meantime.
    fs.linkSync(partFile, file);
    return lineCount;
  } catch (error) {
    throw toInputError(file, error);
  } finally {
    fs.rmSync(partFile, { force: true });
  }
}

/** Opens the temporary file for writing. Replaces a temporary file that a killed export left behind. */
function openPartFile(file: string, partFile: string): number {
  try {
    fs.rmSync(partFile, { force: true });
    return fs.openSync(partFile, "wx", 0o600);
  } catch (error) {
    throw toInputError(file, error);
  }
}

/** Converts a file system error to an {@link InputError} that names the file. Returns other errors unchanged. */
function toInputError(file: string, error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  return code?.startsWith("E") ? new InputError(`--out ${file} cannot be written: ${message}`) : error;
}
