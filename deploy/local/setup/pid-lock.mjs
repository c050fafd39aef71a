// Plain JavaScript without dependencies, because the bootstrap imports this file before the packages are installed.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

/**
 * Returns the boot id of the system and the start time of a process. Together, they distinguish the process from
 * earlier and later processes with the same pid. Returns undefined if the process does not exist or is a zombie.
 */
export function readProcessIdentity(pid) {
  try {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, "utf8");
    const [state, ...fields] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
    if (state === "Z" || state === "X") return undefined;
    const boot = fs.readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    return `${boot}:${fields[18]}`;
  } catch (error) {
    if (fs.existsSync("/proc/self/stat")) {
      if (error.code === "ENOENT" || error.code === "ESRCH") return undefined;
      throw error;
    }
  }
  try {
    return execFileSync("ps", ["-o", "lstart=", "-p", String(pid)], { encoding: "utf8" }).trim() || undefined;
  } catch {
    return undefined; // ps exits with 1 if the process does not exist
  }
}

/** Returns the live process that holds the lock; undefined if the lock is free. */
export function findLockHolder(file) {
  // The identity can contain spaces: without /proc, it is a start time that ps prints.
  const [, digits, identity] = /^(\d+) (.+)$/.exec(readOwner(file) ?? "") ?? [];
  const pid = Number(digits);
  return identity !== undefined && readProcessIdentity(pid) === identity ? { pid } : undefined;
}

/**
 * Acquires a lock, which becomes free when this process ends. The lock is a symbolic link whose target names the owner.
 * A link is created together with its target in one step, even on a full disk. A lock whose owner is dead is replaced.
 *
 * Returns `{release}` if the lock was acquired, or `{holder}` if another live process holds it.
 */
export function tryLock(file) {
  const owner = `${process.pid} ${readProcessIdentity(process.pid)}`;
  fs.mkdirSync(path.dirname(file), { recursive: true });
  for (let attempt = 0; attempt < 5; attempt++) {
    try {
      fs.symlinkSync(owner, file);
      return { release: () => removeIfOwnedBy(file, owner) };
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const holder = findLockHolder(file);
    if (holder) return { holder };
    removeStaleLock(file);
  }
  return { holder: { pid: 0 } };
}

/** Acquires the lock. If the lock is not free, calls `onWait` once and waits at most `waitMs` milliseconds. */
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
 * Removes the lock of a dead owner. First renames the lock. If the renamed lock turns out to belong to a live process,
 * restores the lock.
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

function removeIfOwnedBy(file, owner) {
  if (readOwner(file) === owner) fs.rmSync(file, { force: true });
}

/**
 * Returns the owner's pid and identity; undefined if the lock is free. In earlier releases, the lock was a regular
 * file.
 */
function readOwner(file) {
  try {
    return fs.readlinkSync(file);
  } catch (error) {
    if (error.code === "EINVAL") return fs.readFileSync(file, "utf8").trim();
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}
