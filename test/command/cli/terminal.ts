import { Readable } from "node:stream";
import { runCli } from "../../../command/cli/run-cli.ts";

/** What came of a command line. */
export interface Ran {
  code: number;
  out: string[];
  err: string[];
}

/** Runs a command line in this process, as `main.ts` does it. */
export async function clinic(
  words: string[],
  surroundings: { env?: NodeJS.ProcessEnv; stdin?: string } = {},
): Promise<Ran> {
  const out: string[] = [];
  const err: string[] = [];
  const code = await runCli(words, {
    env: surroundings.env ?? {},
    stdin: Readable.from([surroundings.stdin ?? ""]),
    out: (line) => out.push(line),
    err: (line) => err.push(line),
    redraw: undefined,
  });
  return { code, out, err };
}
