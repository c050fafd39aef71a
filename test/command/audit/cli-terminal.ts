import { runAudit } from "../../../command/audit/cli/run-audit.ts";
import type { AuditTerminal } from "../../../command/audit/cli/terminal.ts";

/** What came of a command line. */
export interface Ran {
  code: number;
  out: string;
  err: string[];
}

/** Runs a command line in this process, as `main.ts` does it. */
export async function audit(words: string[], more: Partial<AuditTerminal> = {}): Promise<Ran> {
  let out = "";
  const err: string[] = [];
  const code = await runAudit(words, {
    env: {},
    write: async (text) => {
      out += text;
    },
    err: (line) => err.push(line),
    ...{ redraw: undefined, columns: undefined, key: undefined },
    ...more,
  });
  return { code, out, err };
}
