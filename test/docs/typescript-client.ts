import { execFile } from "node:child_process";
import { copyFile, symlink, writeFile } from "node:fs/promises";
import path from "node:path";
import { promisify } from "node:util";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";
import type { OpenApiDocument } from "../../query-api/docs/openapi.ts";
import { makeTestRoot } from "../support/stack.ts";
import { run, SAMPLES_FOLDER } from "./sample-programs.ts";

/**
 * Strict compiler options. Declarations of packages are checked, but not the compiler's own. A single thread saves CPU
 * time.
 */
const STRICT_OPTIONS = [
  ...["--noEmit", "--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess", "--noImplicitReturns"],
  ...["--module", "nodenext", "--target", "es2023", "--lib", "es2023,dom", "--types", "node"],
  ...["--allowImportingTsExtensions", "--skipDefaultLibCheck", "--singleThreaded"],
];

/**
 * Generates types with openapi-typescript, then compiles and runs the example that uses them. Returns its output.
 *
 * @throws {Error} with the messages of the generator, the compiler or the example
 */
export async function runGeneratedClient(document: OpenApiDocument, env: Record<string, string>): Promise<string> {
  const folder = makeTestRoot();
  const programFile = path.join(folder, "journey.ts");
  const documentFile = path.join(folder, "openapi.json");
  await symlink(path.join(PROJECT_FOLDER, "node_modules"), path.join(folder, "node_modules"));
  await writeFile(path.join(folder, "package.json"), JSON.stringify({ type: "module" }));
  await writeFile(documentFile, JSON.stringify(document));
  await copyFile(path.join(SAMPLES_FOLDER, "typescript-client", "journey.ts"), programFile);
  const hook = path.join(import.meta.dirname, "typescript-5.mjs");
  const generator = path.join(PROJECT_FOLDER, "node_modules", "openapi-typescript", "bin", "cli.js");
  const output = path.join(folder, "partner-api.ts");
  await runNode(folder, ["--import", hook, generator, documentFile, "--output", output]);
  const compiler = path.join(PROJECT_FOLDER, "node_modules", "typescript", "bin", "tsc");
  await runNode(folder, [compiler, ...STRICT_OPTIONS, programFile]);
  return run([process.execPath, "--import", import.meta.resolve("tsx"), programFile], env);
}

async function runNode(folder: string, args: readonly string[]): Promise<void> {
  try {
    await promisify(execFile)(process.execPath, [...args], { cwd: folder });
  } catch (error) {
    const { stdout, stderr } = error as { stdout: string; stderr: string };
    throw new Error(`${args.join(" ")} failed:\n${stdout}${stderr}`);
  }
}
