import { spawn } from "node:child_process";
import { text } from "node:stream/consumers";
import { findOnPath } from "../../deploy/local/setup/system-package.ts";

/**
 * Returns the path of Prometheus's promtool: the value of PROMTOOL, or else the program on the PATH. Undefined if
 * neither exists.
 */
export function findPromtool(): string | undefined {
  return process.env.PROMTOOL || findOnPath("promtool");
}

/** Runs promtool. @returns the exit code, and standard output and standard error together */
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
