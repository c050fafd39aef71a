import { Readable } from "node:stream";
import { runCli } from "../../../command/cli/run-cli.ts";

/** Exit code and output of a command line. */
export interface CliResult {
  code: number;
  outputLines: string[];
  errorLines: string[];
}

/**
 * Runs a command line in this process, as `main.ts` does in its own process. By default, personal data is stored in
 * plain text, so that a test needs no database.
 */
export async function runClinic(
  args: string[],
  environment: { env?: NodeJS.ProcessEnv; stdin?: string | Buffer | Readable; signal?: AbortSignal } = {},
): Promise<CliResult> {
  const outputLines: string[] = [];
  const errorLines: string[] = [];
  const { env = {}, stdin = "", signal = new AbortController().signal } = environment;
  const code = await runCli(args, {
    env: { PERSONAL_DATA_ENCRYPTION: "off", ...env },
    stdin: stdin instanceof Readable ? stdin : Readable.from([stdin]),
    writeOutput: async (line) => void outputLines.push(line),
    writeError: async (line) => void errorLines.push(line),
    redraw: undefined,
    catchInterruption: () => signal,
  });
  return { code, outputLines, errorLines };
}
