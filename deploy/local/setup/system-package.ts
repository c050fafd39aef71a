import { execFile, spawnSync } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import path from "node:path";
import { promisify } from "node:util";
import { SetupError } from "./setup-error.ts";

const execFileAsync = promisify(execFile);

const APT_GET_TIMEOUT_MS = 5 * 60_000;

/**
 * Returns the path of a program on PATH. If it is missing, installs the Debian package of the same name with apt-get, as
 * root or with passwordless sudo.
 *
 * @param installAdvice shown if the program cannot be installed
 * @throws {SetupError} one line that says how to install the program
 */
export async function findProgram(name: string, installAdvice: string, log: (line: string) => void): Promise<string> {
  const existingPath = findOnPath(name);
  if (existingPath) return existingPath;
  if (!existsSync("/usr/bin/apt-get")) throw new SetupError(`${name} is not on PATH. ${installAdvice}`);
  const sudoCommand = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  if (sudoCommand.length > 0 && spawnSync("sudo", ["-n", "true"], { stdio: "ignore" }).status !== 0)
    throw new SetupError(`${name} is not on PATH, and only root can install it. ${installAdvice}`);
  log(`${name} is not installed. Installing the system package with apt-get …`);
  const aptGetCommand = [...sudoCommand, "apt-get", "-o", "DPkg::Lock::Timeout=120", "-q"];
  for (const subcommand of [["update"], ["install", "-y", "--no-install-recommends", name]]) {
    const [command = "", ...args] = [...aptGetCommand, ...subcommand];
    const env = { ...process.env, DEBIAN_FRONTEND: "noninteractive" };
    await execFileAsync(command, args, { env, timeout: APT_GET_TIMEOUT_MS }).catch(({ stderr, message }) => {
      const problem = /^[EW]: .*/m.exec(stderr)?.[0] ?? message;
      throw new SetupError(`apt-get could not install ${name} (${problem}). ${installAdvice}`);
    });
  }
  const installedPath = findOnPath(name);
  if (installedPath) return installedPath;
  throw new SetupError(`The package ${name} does not contain the program ${name}. ${installAdvice}`);
}

/** Returns the path of a program, or undefined if it is not installed. */
export function findOnPath(name: string): string | undefined {
  const folders = [...(process.env.PATH ?? "").split(path.delimiter), "/usr/sbin", "/usr/local/bin"];
  return folders.map((folder) => path.join(folder, name)).find(isExecutableFile);
}

function isExecutableFile(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return path.isAbsolute(file);
  } catch {
    return false;
  }
}
