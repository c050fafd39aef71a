import { runAudit } from "../../../command/audit/cli/run-audit.ts";
import type { AuditTerminal } from "../../../command/audit/cli/terminal.ts";

/** What came of a command line. */
export interface CommandResult {
  code: number;
  out: string;
  err: string[];
}

/** Runs a command line in this process, as `main.ts` does it. */
export async function runAuditCommand(
  words: string[],
  more: Partial<AuditTerminal> = {},
): Promise<CommandResult> {
  let out = "";
  const err: string[] = [];
  const code = await runAudit(words, {
    env: {},
    write: async (text) => {
      out += text;
    },
    err: (line) => err.push(line),
    ...{ redraw: undefined, columns: undefined, readKey: undefined },
    ...more,
  });
  return { code, out, err };
}
