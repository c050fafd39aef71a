import fs from "node:fs";
import path from "node:path";
import { tryLock } from "./pid-lock.mjs";
import { openPidRegistry, type PidRegistry } from "./pid-registry.ts";
import { type LocalPaths, localPaths, relocationOf } from "./project.ts";
import { type LocalSecrets, loadSecrets } from "./secrets.ts";
import { SetupError } from "./setup-error.ts";

/** A stack's folder, held by this process alone. */
export interface LocalRoot {
  paths: LocalPaths;
  pids: PidRegistry;
  secrets: LocalSecrets;
  /** Lets the folder go. */
  release(): void;
}

/**
 * Takes the folder for this process, stops what a killed owner left running, and reads or makes its secrets.
 *
 * @throws {SetupError} when a live process has it
 */
export async function openLocalRoot(root: string, log: (line: string) => void): Promise<LocalRoot> {
  const paths = localPaths(path.resolve(root));
  makeRoot(paths.root);
  const { release, holder } = tryLock(paths.lock);
  if (holder) throw new SetupError(`the stack in ${paths.root} already runs, as process ${holder.pid}`);
  try {
    const pids = openPidRegistry(paths.pids, log);
    await pids.stopLeftovers();
    fs.rmSync(paths.stack, { force: true }); // of a start that was killed
    return { paths, pids, secrets: await loadSecrets(paths.secrets), release };
  } catch (error) {
    release();
    throw error;
  }
}

/** What may be in the folder before its secrets are; anything else means that the folder is somebody else's. */
const NAMES_BEFORE_SECRETS = [
  "install.lock",
  "lock",
  "logs",
  "pids.json",
  "pids.json.new",
  "secrets.json.new",
];

function makeRoot(root: string): void {
  try {
    fs.mkdirSync(path.join(root, "logs"), { recursive: true });
    fs.accessSync(root, fs.constants.W_OK);
  } catch (error) {
    throw new SetupError(`${root} cannot be written: ${(error as Error).message}`);
  }
  const names = fs.readdirSync(root);
  if (names.includes("secrets.json") || names.every((name) => NAMES_BEFORE_SECRETS.includes(name))) return;
  throw new SetupError(
    `${root} holds something else: the stack needs a folder of its own, which reset deletes`,
  );
}

/** Deletes a stack's folder, and what was placed elsewhere on its behalf. The caller knows that nothing runs there. */
export function removeLocalRoot(root: string): void {
  const resolved = path.resolve(root);
  fs.rmSync(relocationOf(resolved), { recursive: true, force: true });
  fs.rmSync(resolved, { recursive: true, force: true });
}
