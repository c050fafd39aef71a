import { Readable } from "node:stream";
import { clinicCommandLine } from "../../../command/cli/command-line.ts";
import { runCommandLine } from "../../../shared/command-line/command-line.ts";
import { getDataKeySettings } from "../../support/data-keys.ts";
import { createTestTerminal } from "../../support/terminal.ts";

/** Exit code and output of a command line. */
export interface CliResult {
  code: number;
  outputLines: string[];
  errorLines: string[];
}

/**
 * Runs a command line in this process, as `main.ts` does in its own process. By default, the data keys of
 * personal data are in the database that the tests of a process share.
 */
export async function runClinic(
  args: string[],
  environment: { env?: NodeJS.ProcessEnv; stdin?: string | Buffer | Readable; signal?: AbortSignal } = {},
): Promise<CliResult> {
  const { env = {}, stdin = "", signal = new AbortController().signal } = environment;
  const { terminal, ...lines } = createTestTerminal({
    env: { ...("DATABASE_URL" in env ? {} : await getDataKeySettings()), ...env },
    stdin: stdin instanceof Readable ? stdin : Readable.from([stdin]),
    catchInterruption: () => signal,
  });
  return { code: await runCommandLine(clinicCommandLine, args, terminal), ...lines };
}
