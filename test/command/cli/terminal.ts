import { Readable } from "node:stream";
import { runCli } from "../../../command/cli/run-cli.ts";

/** Exit code and output of a command line. */
export interface CliResult {
  code: number;
  out: string[];
  err: string[];
}

/** Runs a command line in this process, as `main.ts` does in its own process. */
export async function runClinic(
  args: string[],
  environment: { env?: NodeJS.ProcessEnv; stdin?: string | Buffer | Readable; signal?: AbortSignal } = {},
): Promise<CliResult> {
  const out: string[] = [];
  const err: string[] = [];
  const { env = {}, stdin = "", signal = new AbortController().signal } = environment;
  const code = await runCli(args, {
    env,
    stdin: stdin instanceof Readable ? stdin : Readable.from([stdin]),
    writeOutput: async (line) => void out.push(line),
    writeError: async (line) => void err.push(line),
    redraw: undefined,
    catchInterruption: () => signal,
  });
  return { code, out, err };
}
