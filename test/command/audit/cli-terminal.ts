import { auditCommandLine } from "../../../command/audit/cli/command-line.ts";
import { runCommandLine } from "../../../shared/command-line/command-line.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import { createTestTerminal } from "../../support/terminal.ts";

export interface CommandResult {
  code: number;
  output: string;
  errorLines: string[];
}

/** Runs the auditors' command line in this process, without a terminal unless the caller provides one. */
export async function runAuditCommand(args: string[], overrides: Partial<Terminal> = {}): Promise<CommandResult> {
  const { terminal, outputLines, errorLines } = createTestTerminal(overrides);
  const code = await runCommandLine(auditCommandLine, args, terminal);
  return { code, output: outputLines.map((line) => `${line}\n`).join(""), errorLines };
}
