import { once } from "node:events";
import fs from "node:fs";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { InputError } from "../../cli/framework/failure.ts";
import { load } from "../../handling/handle.ts";
import { exportClinic, exportQuery } from "../export/export-clinic.ts";
import { createExportSigner } from "../export/signing.ts";
import { type OutputOptions, readQuery, withAuditedAccess } from "./audited-query.ts";
import { NotFoundError } from "./failure.ts";
import { createScanProgress } from "./scan-progress.ts";
import type { AuditTerminal } from "./terminal.ts";

/**
 * Writes a clinic's events and the signed manifest to a file that only its owner can read. The file is written
 * completely or not at all.
 */
export async function exportToFile(
  { actor, json, out, ...given }: OutputOptions & { out?: string } & Record<string, unknown>,
  terminal: AuditTerminal,
): Promise<void> {
  const query = readQuery(exportQuery, given);
  const signer = await createExportSigner(
    readConfig(["AUDIT_SIGNING_KEYS"], terminal.env).AUDIT_SIGNING_KEYS.keys,
  );
  const file = out ?? `audit-${query.clinic}.ndjson`;
  if (fs.existsSync(file)) throw new InputError(`--out ${file} already exists; choose another file`);
  await withAuditedAccess(terminal, { actor, action: "export", asked: given }, async (dependencies) => {
    const { client, log, context, accessId } = dependencies;
    for (const end of ["from", "to"] as const) {
      const at = query[end];
      if (at !== undefined && Date.parse(at) > context.now)
        throw new InputError(`--${end} must not be in the future`);
    }
    await requireClinic(log, query.clinic);
    const { signal } = new AbortController();
    const progress = createScanProgress(terminal);
    const by = { type: context.actor.type, id: context.actor.id };
    const made = { signer, by, accessId, now: toInstant(context.now) };
    const lines = await exportClinic(query, { client, signal, onProgress: progress.show, ...made });
    const count = await writeWhole(file, lines).finally(() => progress.end());
    const result = { file, events: count - 1, key: signer.thumbprint };
    const range = { clinic: query.clinic, from: query.from ?? "start", to: query.to ?? made.now };
    await terminal.write(json ? `${JSON.stringify(result)}\n` : `${textOf({ ...result, ...range })}\n`);
  });
}

function textOf({
  file,
  events,
  key,
  ...range
}: Record<"file" | "key" | "clinic" | "from" | "to", string> & { events: number }): string {
  const expected = `--clinic ${range.clinic} --from ${range.from} --to ${range.to}`;
  return `export: wrote ${events} events to ${file}\nverify it with: npm run audit -- verify ${file} --key ${key} ${expected}`;
}

async function requireClinic(log: EventLog, clinicId: string): Promise<void> {
  if (!(await load(log, clinicAggregate, clinicId)).state)
    throw new NotFoundError(`there is no clinic ${clinicId}`);
}

/** Writes to a temporary name until the file is complete. An existing file is never overwritten. */
async function writeWhole(file: string, lines: AsyncIterable<string>): Promise<number> {
  const part = `${file}.part`;
  const fd = openAnew(file, part);
  const stream = fs.createWriteStream(part, { fd, flush: true });
  const failed = new Promise<never>((_, reject) => stream.once("error", reject));
  // The waits below race with this promise. Before the first wait, its rejection must not count as unhandled.
  failed.catch(() => undefined);
  try {
    let count = 0;
    for await (const line of lines) {
      count += 1;
      if (!stream.write(line)) await Promise.race([once(stream, "drain"), failed]);
    }
    stream.end();
    await Promise.race([once(stream, "close"), failed]);
    fs.linkSync(part, file);
    return count;
  } catch (error) {
    throw asInputError(file, error);
  } finally {
    stream.destroy();
    fs.rmSync(part, { force: true });
  }
}

/** Opens the temporary file, and replaces one that a killed export left behind. */
function openAnew(file: string, part: string): number {
  try {
    fs.rmSync(part, { force: true });
    return fs.openSync(part, "wx", 0o600);
  } catch (error) {
    throw asInputError(file, error);
  }
}

/** Converts a file system error to an {@link InputError} that names the file; returns other errors unchanged. */
function asInputError(file: string, error: unknown): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  return code?.startsWith("E") ? new InputError(`--out ${file} cannot be written: ${message}`) : error;
}
