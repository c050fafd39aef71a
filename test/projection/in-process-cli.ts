import { projectionCommandLine } from "../../projection/cli/command-line.ts";
import { runCommandLine as runAnyCommandLine } from "../../shared/command-line/command-line.ts";
import { createTestTerminal } from "../support/terminal.ts";
import type { CliResult } from "./service-process.ts";

/**
 * Runs `clinic projection …` in this process, which is faster than a separate process.
 *
 * @param env settings
 */
export async function runCommandLine(env: NodeJS.ProcessEnv, args: readonly string[]): Promise<CliResult> {
  const { terminal, outputLines, errorLines } = createTestTerminal({ env });
  const code = await runAnyCommandLine(projectionCommandLine, args, terminal);
  const toText = (lines: string[]) => lines.map((line) => `${line}\n`).join("");
  return { code, stdout: toText(outputLines), stderr: toText(errorLines) };
}
