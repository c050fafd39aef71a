import fs from "node:fs";
import path from "node:path";
import { tryLock } from "./pid-lock.mjs";
import { openPidRegistry, type PidRegistry } from "./pid-registry.ts";
import { getLocalPaths, getRelocatedFolder, type LocalPaths } from "./project.ts";
import { type LocalSecrets, loadSecrets } from "./secrets.ts";
import { SetupError } from "./setup-error.ts";

/** The folder of a stack, locked by this process. */
export interface LocalRoot {
  paths: LocalPaths;
  pids: PidRegistry;
  secrets: LocalSecrets;
  /** Releases the lock. */
  release(): void;
}

/**
 * Opens the folder of a stack: locks it, stops the processes of a killed stack, and reads or creates the secrets.
 *
 * @throws {SetupError} if a live process holds the lock
 */
export async function openLocalRoot(root: string, log: (line: string) => void): Promise<LocalRoot> {
  const paths = getLocalPaths(path.resolve(root));
  ensureRootFolder(paths.root);
  const { release, holder } = tryLock(paths.lock);
  if (holder) throw new SetupError(`The stack in ${paths.root} is already running as process ${holder.pid}.`);
  try {
    const pids = openPidRegistry(paths.pids, log);
    await pids.stopLeftovers();
    fs.rmSync(paths.stack, { force: true }); // the file describes a stack that was killed
    return { paths, pids, secrets: await loadSecrets(paths.secrets), release };
  } catch (error) {
    release();
    throw error;
  }
}

/**
 * Files that a stack's folder can contain before its secrets are created. Until then, a folder with any other file is
 * refused.
 */
const NAMES_BEFORE_SECRETS = ["install.lock", "lock", "logs", "pids.json", "pids.json.new", "secrets.json.new"];

function ensureRootFolder(root: string): void {
  try {
    fs.mkdirSync(path.join(root, "logs"), { recursive: true });
    fs.accessSync(root, fs.constants.W_OK);
  } catch (error) {
    throw new SetupError(`Cannot write to ${root}: ${(error as Error).message}`);
  }
  const fileNames = fs.readdirSync(root);
  if (fileNames.includes("secrets.json") || fileNames.every((name) => NAMES_BEFORE_SECRETS.includes(name))) return;
  throw new SetupError(
    `${root} contains other files. Choose a folder that only the stack uses, because npm run reset deletes the whole folder.`,
  );
}

/** Deletes a stack's folder and its files in /var/lib. The caller must ensure that the stack is not running. */
export function removeLocalRoot(root: string): void {
  const rootFolder = path.resolve(root);
  fs.rmSync(getRelocatedFolder(rootFolder), { recursive: true, force: true });
  fs.rmSync(rootFolder, { recursive: true, force: true });
}
