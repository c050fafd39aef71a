/** `npm run reset`: deletes all local data, secrets and logs, so that the next start begins anew. */
import fs from "node:fs";
import { removeLocalRoot } from "./setup/local-root.ts";
import { lockHolder, tryLock } from "./setup/pid-lock.mjs";
import { openPidRegistry } from "./setup/pid-registry.ts";
import { localPaths, localRoot, PROJECT, relocationOf } from "./setup/project.ts";
import { isDiskFull, runEntry, SetupError } from "./setup/setup-error.ts";

await runEntry(async () => {
  const root = localRoot(process.env);
  if (!fs.existsSync(root)) return console.log(`${root} is not there: nothing to delete`);
  const paths = localPaths(root);
  if (!isStack(root, paths.secrets))
    throw new SetupError(`${root} is not a stack's folder: nothing is deleted`);
  const holder = holderOrLock(paths.lock);
  if (holder) throw new SetupError(`the stack in ${root} runs, as process ${holder.pid}: stop it first`);
  await openPidRegistry(paths.pids, (line) => console.log(line)).stopLeftovers();
  removeLocalRoot(root);
  fs.rmSync(relocationOf(PROJECT), { recursive: true, force: true });
  console.log(`${root} deleted`);
});

/** Takes the lock, or gives its holder. A full disk has no room for a lock, and must not stop what makes room. */
function holderOrLock(lock: string): { pid: number } | undefined {
  try {
    return tryLock(lock).holder;
  } catch (error) {
    if (!isDiskFull(error)) throw error;
    return lockHolder(lock);
  }
}

/** A folder that LOCAL_DIR names by mistake must not be lost. */
function isStack(root: string, secrets: string): boolean {
  return root === localRoot({}) || fs.existsSync(secrets);
}
