import { Readable } from "node:stream";
import { runCli } from "../../../command/cli/run-cli.ts";

/** What came of a command line. */
export interface CliResult {
  code: number;
  out: string[];
  err: string[];
}

/** Runs a command line in this process, as `main.ts` does it. */
export async function runClinic(
  words: string[],
  surroundings: { env?: NodeJS.ProcessEnv; stdin?: string | Buffer | Readable; signal?: AbortSignal } = {},
): Promise<CliResult> {
  const out: string[] = [];
  const err: string[] = [];
  const { env = {}, stdin = "", signal = new AbortController().signal } = surroundings;
  const code = await runCli(words, {
    env,
    stdin: stdin instanceof Readable ? stdin : Readable.from([stdin]),
    out: async (line) => void out.push(line),
    err: async (line) => void err.push(line),
    redraw: undefined,
    catchInterruption: () => signal,
  });
  return { code, out, err };
}
