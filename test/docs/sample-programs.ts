/** Runs the programs in `docs/examples`. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { once } from "node:events";
import path from "node:path";
import { promisify } from "node:util";
import { PROJECT_FOLDER } from "../../deploy/local/setup/project.ts";
import { findOnPath } from "../../deploy/local/setup/system-package.ts";

export const SAMPLES_FOLDER = path.join(PROJECT_FOLDER, "docs", "examples");

/** Time limit for a program, including its compilation on a busy machine. Milliseconds. */
const PROGRAM_TIMEOUT_MS = 180_000;

export interface Language {
  name: string;
  folder: string;
  /** Command that creates an appointment, run in `folder`. */
  createCommand: readonly [program: string, ...args: string[]];
  /** Returns the command that runs the receiver. Only PHP uses the argument; other languages read the variable PORT. */
  buildReceiveCommand(port: number): readonly [program: string, ...args: string[]];
  /** Returns true if the installed version is new enough. Default: every version. */
  isSupported?(): Promise<boolean>;
}

const tsx = [process.execPath, "--import", import.meta.resolve("tsx")] as const;

export const languages: readonly Language[] = [
  {
    name: "TypeScript",
    folder: "typescript",
    createCommand: [...tsx, "create-appointment.ts"],
    buildReceiveCommand: () => [...tsx, "receive-webhooks.ts"],
  },
  {
    name: "Python",
    folder: "python",
    createCommand: ["python3", "create_appointment.py"],
    buildReceiveCommand: () => ["python3", "receive_webhooks.py"],
  },
  {
    name: "PHP",
    folder: "php",
    createCommand: ["php", "create-appointment.php"],
    buildReceiveCommand: (port) => ["php", "-S", `127.0.0.1:${port}`, "receive-webhooks.php"],
  },
  {
    name: "C#",
    folder: "csharp",
    createCommand: ["dotnet", "run", "create-appointment.cs"],
    buildReceiveCommand: () => ["dotnet", "run", "receive-webhooks.cs"],
    // Older versions cannot run a single file.
    isSupported: async () => Number.parseInt(await run(["dotnet", "--version"], {}), 10) >= 10,
  },
  {
    name: "Go",
    folder: "go",
    createCommand: ["go", "run", "create_appointment.go"],
    buildReceiveCommand: () => ["go", "run", "receive_webhooks.go"],
  },
];

/** Returns true if the program that runs the examples of the language is installed. */
export async function isInstalled({ createCommand: [program], isSupported }: Language): Promise<boolean> {
  return findOnPath(path.basename(program)) !== undefined && (isSupported === undefined || (await isSupported()));
}

/** Environment of the programs. Disables .NET build servers, which would keep running after the test. */
const buildEnv = (env: Record<string, string>) => ({
  ...process.env,
  DOTNET_CLI_TELEMETRY_OPTOUT: "1",
  DOTNET_NOLOGO: "1",
  DOTNET_CLI_USE_MSBUILD_SERVER: "0",
  MSBUILDDISABLENODEREUSE: "1",
  UseSharedCompilation: "false",
  ...env,
});

/**
 * Runs a program and returns its standard output.
 *
 * @param folder absolute, or relative to `docs/examples`
 * @throws {Error} if the exit code is not 0
 */
export async function run(
  [program, ...args]: Language["createCommand"],
  env: Record<string, string>,
  folder = "",
): Promise<string> {
  const options = { cwd: path.resolve(SAMPLES_FOLDER, folder), env: buildEnv(env), timeout: PROGRAM_TIMEOUT_MS };
  const { stdout } = await promisify(execFile)(program, args, options);
  return stdout;
}

export interface RunningProgram {
  /** Output lines so far. */
  lines: string[];
  /** Returns the exit code and last errors of an ended program; undefined while it runs. */
  getFailure(): string | undefined;
  stop(): Promise<void>;
}

/**
 * Starts the receiver of a language.
 *
 * @param tempDir folder for temporary files. The PHP receiver stores ids there
 */
export function startReceiverProgram(
  { folder, buildReceiveCommand }: Language,
  port: number,
  secret: string,
  tempDir: string,
): RunningProgram {
  const env = { PORT: String(port), WEBHOOK_SECRET: secret, TMPDIR: tempDir };
  return startProgram(buildReceiveCommand(port), env, folder);
}

/** Starts a program. Its process group is killed at the end, because `go run` starts a second process. */
export function startProgram(
  [program, ...args]: Language["createCommand"],
  env: Record<string, string>,
  folder: string,
): RunningProgram {
  const options = { cwd: path.join(SAMPLES_FOLDER, folder), env: buildEnv(env), detached: true };
  const child = spawn(program, args, options);
  const lines: string[] = [];
  let errorText = "";
  let partialLine = "";
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const parts = (partialLine + text).split("\n");
    partialLine = parts.pop() ?? "";
    lines.push(...parts);
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errorText = (errorText + text).slice(-2_000);
  });
  const killGroup = () => killProcessGroup(child);
  process.once("exit", killGroup);
  return {
    lines,
    getFailure: () => (child.exitCode === null ? undefined : `exit code ${child.exitCode}: ${errorText}`),
    async stop() {
      process.off("exit", killGroup);
      if (child.exitCode !== null) return;
      const exitPromise = once(child, "exit");
      killGroup();
      await exitPromise;
    },
  };
}

function killProcessGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch (error) {
    // The program has ended by itself.
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

/** Skips a test and adds the missing program to its title. */
export function skip(context: Mocha.Context, program: string): void {
  if (context.test) context.test.title += ` (skipped: ${program} is missing or too old)`;
  context.skip();
}
