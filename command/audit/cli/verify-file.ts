import fs from "node:fs";
import { z } from "zod";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { InputError } from "../../cli/framework/failure.ts";
import type { Manifest } from "../export/manifest.ts";
import { type Expected, verifyExport } from "../export/verify-export.ts";
import { isThumbprint, readTrustedKeys, type TrustedKeys } from "../export/verify-key.ts";
import { NotFoundError } from "./failure.ts";
import type { AuditTerminal } from "./terminal.ts";

/** Maximum length of an export's line, in characters. */
const MAX_LINE_BYTES = 16 * 1024 * 1024;

/** Options of `verify` on the command line. */
export interface VerifyOptions {
  key: string;
  clinic?: string;
  from?: string;
  to?: string;
  json?: boolean;
}

const expectation = z.object({
  clinicId: uuid.optional(),
  from: z.union([z.literal("start").transform(() => null), instant]).optional(),
  to: instant.optional(),
});

/**
 * Verifies an export using only the file and the key, without event log, database or network. With expectations, a
 * genuine export of another clinic or range also fails.
 *
 * @throws {InputError} for an invalid option or an unreadable file
 * @throws {NotFoundError} for an export that is altered, incomplete, or not the expected one
 */
export async function verifyFile(
  file: string,
  { key, json, ...given }: VerifyOptions,
  terminal: AuditTerminal,
): Promise<void> {
  const verdict = await verifyExport(linesOf(file), await trustedKeys(key), expectedOf(given));
  if (!verdict.ok) {
    if (json) await terminal.write(`${JSON.stringify(verdict)}\n`);
    throw new NotFoundError(`${file} is not verified: line ${verdict.line}: ${verdict.problem}`);
  }
  await terminal.write(json ? `${JSON.stringify(verdict)}\n` : `${textOf(file, verdict.manifest)}\n`);
}

function expectedOf({ clinic, from, to }: Omit<VerifyOptions, "key" | "json">): Expected {
  const checked = expectation.safeParse({ clinicId: clinic, from, to });
  if (checked.success) return checked.data;
  const wrong = checked.error.issues.map(({ path: [name] }) => WRONG[String(name)]);
  throw new InputError([...new Set(wrong)].join("; "));
}

const WRONG: Record<string, string> = {
  clinicId: "--clinic must be a UUID",
  from: "--from must be an RFC 3339 date-time with an offset, or start",
  to: "--to must be an RFC 3339 date-time with an offset",
};

async function trustedKeys(key: string): Promise<TrustedKeys> {
  // A thumbprint is never read as a file name: an attacker could provide a file with that name and another key.
  const text = isThumbprint(key.trim()) || !fs.existsSync(key) ? key : fs.readFileSync(key, "utf8");
  const keys = await readTrustedKeys(text);
  if (!keys) throw new InputError("--key must be a thumbprint or a file with a public key or key set");
  return keys;
}

/** Yields each line with its line ending. The last line may have none. */
async function* linesOf(file: string): AsyncGenerator<string, void> {
  let rest = "";
  try {
    // Invalid UTF-8 must be an error, not replaced.
    const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
    for await (const chunk of fs.createReadStream(file)) {
      const parts = (rest + decoder.decode(chunk as Uint8Array, { stream: true })).split("\n");
      rest = parts.pop() ?? "";
      for (const part of parts) yield `${part}\n`;
      if (rest.length > MAX_LINE_BYTES) throw new InputError(`${file} is not an export: a line is too long`);
    }
    rest += decoder.decode();
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (code === "ERR_ENCODING_INVALID_ENCODED_DATA")
      throw new NotFoundError(`${file} is not verified: the file is not valid UTF-8`);
    if (code !== undefined) throw new InputError(`${file} cannot be read: ${message}`);
    throw error;
  }
  if (rest !== "") yield rest;
}

function textOf(file: string, { clinicId, stored, count, first, last, made }: Manifest): string {
  const places = first && last ? `positions ${first.position} to ${last.position}` : "no positions";
  return [
    `${file} is complete and unaltered`,
    `  clinic   ${clinicId}`,
    `  stored   ${stored.from ?? "from the beginning"} to ${stored.to}`,
    `  events   ${count}, ${places}`,
    `  made     ${made.at} by ${made.by.type}:${made.by.id}, when the log ended at ${made.logEnd}`,
  ].join("\n");
}
