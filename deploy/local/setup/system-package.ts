import { spawn, spawnSync } from "node:child_process";
import { accessSync, constants, existsSync } from "node:fs";
import path from "node:path";
import { SetupError } from "./setup-error.ts";

/** A program that the Debian package of the same name installs. */
export interface SystemProgram {
  name: string;
  /** Advice for systems where it cannot be installed automatically. */
  installAdvice: string;
}

/** Time limit of an installation. */
const INSTALL_MINUTES = 5;

/**
 * Finds a program on PATH. Otherwise installs it with apt-get, as root or with passwordless sudo.
 *
 * @throws {SetupError} one line that says how to install it
 */
export async function findProgram(
  { name, installAdvice }: SystemProgram,
  log: (line: string) => void,
): Promise<string> {
  const found = findOnPath(name);
  if (found) return found;
  if (!existsSync("/usr/bin/apt-get")) throw new SetupError(`${name} is not on PATH. ${installAdvice}`);
  const sudo = process.getuid?.() === 0 ? [] : ["sudo", "-n"];
  if (sudo.length > 0 && spawnSync("sudo", ["-n", "true"], { stdio: "ignore" }).status !== 0)
    throw new SetupError(`${name} is not on PATH, and only root can install it. ${installAdvice}`);
  log(`${name} is not installed. Installing the system package with apt-get …`);
  const wait = ["-o", "DPkg::Lock::Timeout=120"];
  const failed = (problem: string) =>
    new SetupError(`apt-get could not install ${name} (${problem}). ${installAdvice}`);
  await runAptGet([...sudo, "apt-get", ...wait, "update", "-q"], log, failed);
  await runAptGet(
    [...sudo, "apt-get", ...wait, "install", "-y", "-q", "--no-install-recommends", name],
    log,
    failed,
  );
  const installed = findOnPath(name);
  if (!installed)
    throw new SetupError(`The package ${name} does not contain the program ${name}. ${installAdvice}`);
  return installed;
}

/** Returns the program's path; undefined if it is not installed. */
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

async function runAptGet(
  commandLine: string[],
  log: (line: string) => void,
  failed: (problem: string) => Error,
): Promise<void> {
  const [command = "apt-get", ...args] = commandLine;
  const child = spawn(command, args, {
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, DEBIAN_FRONTEND: "noninteractive" },
    timeout: INSTALL_MINUTES * 60_000,
  });
  let lastError = "";
  const show = (chunk: Buffer) => {
    for (const line of chunk.toString("utf8").split(/[\r\n]+/)) {
      if (/^(Get|Hit|Fetched|Unpacking|Setting up)\b/.test(line)) log(`  apt-get: ${line}`);
      if (/^[EW]: /.test(line)) lastError = line;
    }
  };
  child.stdout.on("data", show);
  child.stderr.on("data", show);
  const code = await new Promise<number | null>((resolve) => {
    child.once("error", () => resolve(null));
    child.once("close", resolve);
  });
  if (code !== 0) throw failed(lastError || `code ${code}`);
}
