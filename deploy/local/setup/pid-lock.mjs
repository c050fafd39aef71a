// Plain JavaScript without dependencies: the bootstrap needs it before anything is installed.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

/**
 * Returns the boot and start time of a process, which no other process with the same pid shares.
 * Returns undefined if no such process lives; a zombie counts as dead.
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
    return undefined; // ps exits with 1 if there is no such process
  }
}

/** Returns the live process that holds the lock; undefined if there is none. */
export function findLockHolder(file) {
  // The identity may contain spaces: without /proc it is the start time that ps prints.
  const [, digits, identity] = /^(\d+) (.+)$/.exec(ownerIn(file) ?? "") ?? [];
  const pid = Number(digits);
  return identity !== undefined && readProcessIdentity(pid) === identity ? { pid } : undefined;
}

/**
 * Takes a lock that ends with this process: a symbolic link whose target names the owner. The link of a dead owner is
 * replaced. A link is created together with its content in one step, also on a full disk.
 * Returns {release} if the lock was taken, {holder} if a live process holds it.
 */
export function tryLock(file) {
  const mine = `${process.pid} ${readProcessIdentity(process.pid)}`;
  fs.mkdirSync(path.dirname(file), { recursive: true });
  for (let attempt = 0; attempt < 5; attempt++) {
    try {
      fs.symlinkSync(mine, file);
      return { release: () => removeIf(file, mine) };
    } catch (error) {
      if (error.code !== "EEXIST") throw error;
    }
    const holder = findLockHolder(file);
    if (holder) return { holder };
    removeStale(file);
  }
  return { holder: { pid: 0 } };
}

/** Waits for the lock, at most `waitMs` milliseconds; calls `onWait` once with the holder. */
export async function waitForLock(file, waitMs, onWait) {
  const deadline = Date.now() + waitMs;
  for (let waited = false; ; waited = true) {
    const { release, holder } = tryLock(file);
    if (release) return release;
    if (Date.now() > deadline) throw new Error(`Process ${holder.pid} still holds ${file}.`);
    if (!waited) onWait(holder);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** Two processes can find the same stale lock. So it is moved aside first, and put back if it is a new one. */
function removeStale(file) {
  const aside = `${file}.${process.pid}.stale`;
  try {
    fs.renameSync(file, aside);
    if (findLockHolder(aside)) fs.symlinkSync(ownerIn(aside), file);
    fs.unlinkSync(aside);
  } catch (error) {
    if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error;
  }
}

function removeIf(file, owner) {
  if (ownerIn(file) === owner) fs.rmSync(file, { force: true });
}

/** Returns the text that names the owner; undefined if there is no lock. Earlier releases wrote it into a file. */
function ownerIn(file) {
  try {
    return fs.readlinkSync(file);
  } catch (error) {
    if (error.code === "EINVAL") return fs.readFileSync(file, "utf8").trim();
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
}
