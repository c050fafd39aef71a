import { spawn } from "node:child_process";

/** A program that exited with a status other than 0. The message contains its last output. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

const SHOWN_OUTPUT_LENGTH = 2_000;

/**
 * Runs a program and returns its standard output.
 *
 * @param env variables that are added to the environment
 * @throws {CommandError} if it exits with a status other than 0
 */
export async function run(program: string, args: readonly string[], env: NodeJS.ProcessEnv = {}): Promise<string> {
  const child = spawn(program, args, { stdio: ["ignore", "pipe", "pipe"], env: { ...process.env, ...env } });
  let output = "";
  let allOutput = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
    allOutput += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    allOutput += text;
  });
  const status = await new Promise<number | null>((resolve, reject) => {
    child.on("error", reject);
    child.on("close", resolve);
  });
  if (status === 0) return output;
  throw new CommandError(`${program} ${args[0]} exited with ${status}: ${allOutput.slice(-SHOWN_OUTPUT_LENGTH)}`);
}
