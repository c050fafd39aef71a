/** `npm run reset`: deletes all local data, secrets and logs. The next start creates new ones. */
import fs from "node:fs";
import { removeLocalRoot } from "./setup/local-root.ts";
import { findLockHolder, tryLock } from "./setup/pid-lock.mjs";
import { openPidRegistry } from "./setup/pid-registry.ts";
import { getLocalPaths, getLocalRoot, getRelocatedFolder, PROJECT_FOLDER } from "./setup/project.ts";
import { isDiskFullError, runEntry, SetupError } from "./setup/setup-error.ts";

await runEntry(async () => {
  const root = getLocalRoot(process.env);
  if (!fs.existsSync(root)) return console.log(`Nothing to delete: ${root} does not exist.`);
  const paths = getLocalPaths(root);
  if (root !== getLocalRoot({}) && !fs.existsSync(paths.secrets))
    throw new SetupError(`${root} was not created by npm start. Nothing was deleted. Check LOCAL_DIR.`);
  const holder = acquireLock(paths.lock);
  if (holder) throw new SetupError(`The stack in ${root} is running as process ${holder.pid}. Stop it first.`);
  await openPidRegistry(paths.pids, (line) => console.log(line)).stopLeftovers();
  removeLocalRoot(root);
  fs.rmSync(getRelocatedFolder(PROJECT_FOLDER), { recursive: true, force: true });
  console.log(`Deleted ${root}.`);
});

/**
 * Acquires the lock. If another process holds the lock, returns that process. On a full disk, continues without the
 * lock, because a reset frees space.
 */
function acquireLock(file: string): { pid: number } | undefined {
  try {
    return tryLock(file).holder;
  } catch (error) {
    if (!isDiskFullError(error)) throw error;
    return findLockHolder(file);
  }
}
