// Plain JavaScript without dependencies, because the bootstrap imports this file before the packages are installed.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

const SETPRIV =
  process.platform === "linux" ? ["/usr/bin/setpriv", "/bin/setpriv"].find((file) => fs.existsSync(file)) : undefined;

/**
 * Wraps a command line so that its process receives a signal when this process ends, even if this process is killed.
 *
 * This works only on Linux, with setpriv from util-linux. setpriv registers the signal and then replaces itself with
 * the command, so the pid stays the same. On other systems, the command line is returned unchanged.
 */
export function withDeathSignal(signal, command, args) {
  if (!SETPRIV) return [command, [...args]];
  return [SETPRIV, ["--pdeathsig", signal.slice("SIG".length), "--", command, ...args]];
}

/**
 * Returns the boot id of the system and the start time of a process. Together, they distinguish the process from
 * earlier and later processes with the same pid. Returns undefined if the process does not exist or is a zombie.
 */
export function readProcessIdentity(pid) {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (state === "Z" || state === "X") return undefined;
    return `${fs.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim()}:${fields[18]}`;
  } catch {
    if (fs.existsSync("/proc/self/stat")) return undefined;
  }
  try {
    return execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).trim() || undefined;
  } catch {
    return undefined; // ps exits with 1 if the process does not exist
  }
}

export function findLockHolder(file) {
  // The identity can contain spaces: without /proc, it is a start time that ps prints.
  const [, digits, identity] = /^(\d+) (.+)$/.exec(readOwner(file) ?? "") ?? [];
  const pid = Number(digits);
  return identity !== undefined && readProcessIdentity(pid) === identity ? { pid } : undefined;
}

/**
 * Acquires a lock, which becomes free when this process ends. The lock is a symbolic link whose target names the owner,
 * because a link is created together with its target in one step. A lock whose owner is dead is replaced.
 *
 * Returns `{release}` if the lock was acquired, or `{holder}` if another live process holds it.
 */
export function tryLock(file) {
  const owner = `${process.pid} ${readProcessIdentity(process.pid)}`;
  fs.mkdirSync(path.dirname(file), { recursive: true });
  for (let attempt = 0; attempt < 5; attempt++) {
    try {
      fs.symlinkSync(owner, file);
      return { release: () => readOwner(file) === owner && fs.rmSync(file, { force: true }) };
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const holder = findLockHolder(file);
    if (holder) return { holder };
    removeStaleLock(file);
  }
  return { holder: { pid: 0 } };
}

export async function waitForLock(file, waitMs, onWait) {
  const deadline = Date.now() + waitMs;
  for (let isRetry = false; ; isRetry = true) {
    const { release, holder } = tryLock(file);
    if (release) return release;
    if (Date.now() > deadline) throw new Error(`Process ${holder.pid} still holds ${file}.`);
    if (!isRetry) onWait(holder);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/**
 * Removes the lock of a dead owner. Renames the lock first, and puts it back if a live process has acquired it
 * meanwhile.
 */
function removeStaleLock(file) {
  const renamed = `${file}.${process.pid}.stale`;
  try {
    fs.renameSync(file, renamed);
    if (findLockHolder(renamed)) fs.symlinkSync(readOwner(renamed), file);
    fs.unlinkSync(renamed);
  } catch (error) {
    if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error;
  }
}

/** Returns undefined if the file does not exist or is not a symbolic link. */
function readOwner(file) {
  try {
    return fs.readlinkSync(file);
  } catch (error) {
    if (error.code === "ENOENT" || error.code === "EINVAL") return undefined;
    throw error;
  }
}
