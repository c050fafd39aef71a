import { spawn } from "node:child_process";

export interface CommandResult {
  code: number | null;
  /** Standard output and standard error, in the order of their arrival. */
  output: string;
  stdout: string;
}

export interface RunOptions {
  env?: NodeJS.ProcessEnv;
  cwd?: string;
  input?: string;
  /** Kills the process after this time. Milliseconds. */
  timeoutMs?: number;
}

/** Runs a program to its end. Does not throw for an exit code other than 0. */
export function run(command: string, args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
  const { env = process.env, cwd = "/", input, timeoutMs } = options;
  return new Promise((resolve, reject) => {
    const child = spawn(command, args, { env, cwd, timeout: timeoutMs, killSignal: "SIGKILL", stdio: "pipe" });
    let output = "";
    let stdout = "";
    child.stdout.setEncoding("utf8").on("data", (text) => {
      output += text;
      stdout += text;
    });
    child.stderr.setEncoding("utf8").on("data", (text) => {
      output += text;
    });
    child.on("error", reject);
    child.on("close", (code) => resolve({ code, output, stdout }));
    child.stdin.on("error", () => undefined).end(input);
  });
}

/**
 * Runs a program that must succeed.
 *
 * @returns its standard output without the white space at its end
 * @throws {Error} with the end of the output if the exit code is not 0
 */
export async function runChecked(command: string, args: readonly string[], options: RunOptions = {}): Promise<string> {
  const { code, output, stdout } = await run(command, args, options);
  if (code === 0) return stdout.trimEnd();
  throw new Error(`${command} ${args.slice(0, 4).join(" ")} … exited with ${code}: ${output.trimEnd().slice(-2_000)}`);
}

/** Returns true if the program is on the PATH. */
export async function isInstalled(program: string): Promise<boolean> {
  return (await run("sh", ["-c", `command -v ${program}`])).code === 0;
}
