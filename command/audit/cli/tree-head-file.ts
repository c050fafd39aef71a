import fs from "node:fs";
import { InputError } from "../../cli/framework/failure.ts";
import { parseJson } from "../export/json.ts";
import type { GetTrustedKey } from "../export/verify-key.ts";
import { type SignedTreeHead, verifyTreeHead } from "../tree/tree-head.ts";

/**
 * Reads a file that the user names.
 *
 * @throws {InputError} if the file cannot be read
 */
export function readInputFile(file: string): Buffer {
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
export async function readTreeHeadFile(file: string, getTrustedKey: GetTrustedKey): Promise<SignedTreeHead> {
  const result = await verifyTreeHead(parseJson(readInputFile(file).toString("utf8")), getTrustedKey);
  if ("fault" in result) throw new InputError(`${file} is not a verified tree head: ${result.problem}`);
  return result;
}
