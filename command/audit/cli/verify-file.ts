import fs from "node:fs";
import { z } from "zod";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { InputError } from "../../cli/framework/failure.ts";
import type { Manifest } from "../export/manifest.ts";
import { verifyExport } from "../export/verify-export.ts";
import { type GetTrustedKey, isThumbprint, readTrustedKeys } from "../export/verify-key.ts";
import { type CommandOptions, readQuery } from "./audited-query.ts";
import { NotVerifiedError } from "./failure.ts";
import type { AuditTerminal } from "./terminal.ts";

/** Maximum length of a line in an export, in characters. */
const MAX_LINE_LENGTH = 16 * 1024 * 1024;

/** Options of the command `verify`. */
export type VerifyOptions = CommandOptions & { key: string };

const expectedExportSchema = z.object({
  clinic: uuid.optional(),
  from: z
    .union(
      [z.literal("start").transform(() => null), instant],
      "must be an RFC 3339 date-time with an offset, or `start`",
    )
    .optional(),
  to: instant.optional(),
});

/**
 * Verifies an export using only the file and the key, without event log, database or network. If the options name an
 * expected clinic or range, the verification also fails for a genuine export of another clinic or range.
 *
 * @throws {InputError} for an invalid option or an unreadable file
 * @throws {NotVerifiedError} for an export that is altered or incomplete, or that is not the expected export
 */
export async function verifyFile(
  file: string,
  { key, json, ...options }: VerifyOptions,
  terminal: AuditTerminal,
): Promise<void> {
  const getTrustedKey = await loadTrustedKeys(key);
  const verdict = await verifyExport(readLines(file), getTrustedKey, readQuery(expectedExportSchema, options));
  if (json) await terminal.write(`${JSON.stringify(verdict)}\n`);
  if (!verdict.ok) throw new NotVerifiedError(`${file} is not verified: line ${verdict.line}: ${verdict.problem}`);
  if (!json) await terminal.write(`${formatManifest(file, verdict.manifest)}\n`);
}

async function loadTrustedKeys(key: string): Promise<GetTrustedKey> {
  // A thumbprint is never read as a file name: an attacker could provide a file with that name and another key.
  const keyText = isThumbprint(key.trim()) || !fs.existsSync(key) ? key : fs.readFileSync(key, "utf8");
  const getTrustedKey = await readTrustedKeys(keyText);
  if (!getTrustedKey) throw new InputError("--key must be a thumbprint or a file with a public key or key set");
  return getTrustedKey;
}

/** Yields each line of a file, including its line ending. The last line may have no line ending. */
async function* readLines(file: string): AsyncGenerator<string, void> {
  let incompleteLine = "";
  try {
    // By default, a decoder replaces invalid UTF-8, which would hide an alteration.
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    for await (const chunk of fs.createReadStream(file)) {
      const lines = (incompleteLine + decoder.decode(chunk as Uint8Array, { stream: true })).split("\n");
      incompleteLine = lines.pop() ?? "";
      for (const line of lines) yield `${line}\n`;
      if (incompleteLine.length > MAX_LINE_LENGTH) throw new InputError(`${file} is not an export: a line is too long`);
    }
    incompleteLine += decoder.decode();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ERR_ENCODING_INVALID_ENCODED_DATA")
      throw new NotVerifiedError(`${file} is not verified: the file is not valid UTF-8`);
    if (code !== undefined) throw new InputError(`${file} cannot be read: ${message}`);
    throw error;
  }
  if (incompleteLine !== "") yield incompleteLine;
}

function formatManifest(file: string, { clinicId, stored, count, first, last, made }: Manifest): string {
  const positionsText = first && last ? `positions ${first.position} to ${last.position}` : "no positions";
  return [
    `${file} is complete and unaltered`,
    `  clinic   ${clinicId}`,
    `  stored   ${stored.from ?? "from the beginning"} to ${stored.to}`,
    `  events   ${count}, ${positionsText}`,
    `  created  ${made.at} by ${made.by.type}:${made.by.id}, when the log ended at position ${made.logEnd}`,
  ].join("\n");
}
