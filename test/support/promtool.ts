import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { findOnPath } from "../../deploy/local/setup/system-package.ts";

/**
 * Returns the path of promtool, the command line of Prometheus, or undefined if it is not installed. The environment
 * variable PROMTOOL names the program. Otherwise it is searched for on the PATH.
 */
export function findPromtool(): string | undefined {
  return process.env.PROMTOOL || findOnPath("promtool");
}

/** Runs promtool. @returns exit code, and the output of both streams */
export async function runPromtool(
  promtool: string,
  args: readonly string[],
  input = "",
): Promise<{ code: number | null; output: string }> {
  const child = spawn(promtool, args, { stdio: "pipe" });
  const exitPromise = new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  child.stdin.end(input);
  const [code, out, err] = await Promise.all([exitPromise, text(child.stdout), text(child.stderr)]);
  return { code, output: out + err };
}
