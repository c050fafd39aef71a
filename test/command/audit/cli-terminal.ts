import { runAudit } from "../../../command/audit/cli/run-audit.ts";
import type { AuditTerminal } from "../../../command/audit/cli/terminal.ts";

/** Exit code and output of a command. */
export interface CommandResult {
  code: number;
  output: string;
  errorLines: string[];
}

/** Runs the auditors' command line in this process, without a terminal unless the caller provides one. */
export async function runAuditCommand(args: string[], terminal: Partial<AuditTerminal> = {}): Promise<CommandResult> {
  let output = "";
  const errorLines: string[] = [];
  const code = await runAudit(args, {
    env: {},
    write: async (text) => {
      output += text;
    },
    writeError: (line) => errorLines.push(line),
    redraw: undefined,
    columns: undefined,
    readKey: undefined,
    ...terminal,
  });
  return { code, output, errorLines };
}
