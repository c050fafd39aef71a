import { Readable } from "node:stream";
import { clinicCommandLine } from "../../../command/cli/command-line.ts";
import { runCommandLine } from "../../../shared/command-line/command-line.ts";
import { getDataKeySettings } from "../../support/data-keys.ts";
import { createTestTerminal } from "../../support/terminal.ts";

export interface CliResult {
  code: number;
  outputLines: string[];
  errorLines: string[];
}

/** Runs `clinic` in this process. By default, data keys are in the database that the tests of this process share. */
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
