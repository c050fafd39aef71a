import fs from "node:fs";
import { z } from "zod";
import { InputError, RefusedError } from "../../../shared/command-line/failure.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import { instant, uuid } from "../../../shared/domain/events/fields.ts";
import { parseJson } from "../export/json.ts";
import type { Manifest } from "../export/manifest.ts";
import { isThumbprint, readThumbprints, splitLines, type Thumbprints, verifyExport } from "../export/verify-export.ts";
import { type VerifiedProof, verifyProof } from "../tree/proof.ts";
import { type SignedTreeHead, type TreeHead, verifyTreeHead } from "../tree/tree-head.ts";
import { type CommandOptions, readQuery } from "./queries.ts";

const expectedExportSchema = z.object({
  clinic: uuid.optional(),
  from: z
    .union(
      [z.literal("start").transform(() => null), instant],
      "must be a date, a time such as 2026-11-28 10:00, or `start`",
    )
    .optional(),
  to: instant.optional(),
});

/**
 * Verifies an export using only the file and the key, without event log, database or network. If the options name an
 * expected clinic or range, the verification also fails for a genuine export of another clinic or range.
 *
 * @throws {InputError} for an invalid option or an unreadable file
 * @throws {RefusedError} for an export that is altered or incomplete, or that is not the expected export
 */
export async function verifyFile(
  { file, key, json, ...options }: CommandOptions & { file: string; key: string },
  terminal: Terminal,
): Promise<void> {
  const trustedKeys = await loadTrustedKeys(key);
  const verdict = await verifyExport(readLines(file), trustedKeys, readQuery(expectedExportSchema, options));
  if (json) await terminal.writeOutput(JSON.stringify(verdict));
  if (!verdict.ok) throw new RefusedError(`${file} is not verified: line ${verdict.line}: ${verdict.problem}`);
  if (!json) await terminal.writeOutput(formatManifest(file, verdict.manifest));
}

async function loadTrustedKeys(key: string): Promise<Thumbprints> {
  // A thumbprint is never read as a file name: an attacker could provide a file with that name and another key.
  const keyText = isThumbprint(key.trim()) || !fs.existsSync(key) ? key : fs.readFileSync(key, "utf8");
  const trustedKeys = await readThumbprints(keyText);
  if (!trustedKeys) throw new InputError("--key must be a thumbprint or a file with a public key or key set");
  return trustedKeys;
}

/** Reads the lines of a file, with their line feeds. */
export async function* readLines(file: string): AsyncGenerator<Uint8Array, void> {
  try {
    yield* splitLines(fs.createReadStream(file));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    if (error instanceof RangeError) throw new InputError(`${file} is not an export: ${message}`);
    if (code !== undefined) throw new InputError(`${file} cannot be read: ${message}`);
    throw error;
  }
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

/**
 * Verifies a tree head or a proof using only files and the key.
 *
 * @throws {InputError} for an unreadable file, an invalid key or an invalid expected tree head
 * @throws {RefusedError} if the tree head or the proof is not verified
 */
export async function verifyProofFile(
  { file, key, head: headFiles, json }: { file: string; key: string; head: string[]; json: boolean },
  terminal: Terminal,
): Promise<void> {
  const trustedKeys = await loadTrustedKeys(key);
  const expectedHeads: TreeHead[] = [];
  for (const headFile of headFiles) expectedHeads.push((await readTreeHeadFile(headFile, trustedKeys)).treeHead);
  const verdict = await verifyProof(readInputFile(file), trustedKeys, expectedHeads);
  if (json) await terminal.writeOutput(JSON.stringify(verdict));
  if (!verdict.ok) throw new RefusedError(`${file} is not verified: ${verdict.problem}`);
  if (!json) await terminal.writeOutput(`${file} is verified: ${describeProof(verdict)}`);
}

function describeProof(proof: VerifiedProof): string {
  const head = describeHead(proof.treeHead);
  switch (proof.kind) {
    case "tree-head":
      return head;
    case "inclusion-proof":
      return `event ${proof.event.id} is event ${proof.index + 1} of the ${head}`;
    case "consistency-proof":
      return `the ${head} starts with all events of the ${describeHead(proof.from)}`;
  }
}

function describeHead({ size, at, treeId }: TreeHead): string {
  return `tree head of ${formatCount(size, "event")}, ${at}, tree ${treeId}`;
}

/**
 * Reads a file that the user names.
 *
 * @throws {InputError} if the file cannot be read
 */
function readInputFile(file: string): Buffer {
  try {
    return fs.readFileSync(file);
  } catch (error) {
    throw new InputError(`${file} cannot be read: ${(error as Error).message}`);
  }
}

/**
 * Reads and verifies a tree head.
 *
 * @throws {InputError} if the file does not contain a tree head that was signed with a trusted key
 */
export async function readTreeHeadFile(file: string, trustedKeys: Thumbprints): Promise<SignedTreeHead> {
  const result = await verifyTreeHead(parseJson(readInputFile(file).toString("utf8")), trustedKeys);
  if ("fault" in result) throw new InputError(`${file} is not a verified tree head: ${result.problem}`);
  return result;
}
