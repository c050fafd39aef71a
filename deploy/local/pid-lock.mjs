// Plain JavaScript without dependencies: the bootstrap needs it before anything is installed.
import { execFileSync } from "node:child_process";
import fs from "node:fs";
import path from "node:path";

/** How long a lock file may be empty: its owner is between creating and writing it. Milliseconds. */
const WRITING_MS = 2_000;

/**
 * Tells a process apart from every other one that ever had its number: boot and start time.
 * Undefined when no such process lives; a zombie counts as dead.
 */
export function processIdentity(pid) {
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
    return undefined; // ps ends with 1 when there is no such process
  }
}

/** The live process that holds the lock, if any. A file that is just being written counts as held, by pid 0. */
export function lockHolder(file) {
  let text;
  try {
    text = fs.readFileSync(file, "utf8");
    if (text === "" && Date.now() - fs.statSync(file).mtimeMs < WRITING_MS) return { pid: 0 };
  } catch (error) {
    if (error.code === "ENOENT") return undefined;
    throw error;
  }
  const [pid, identity] = text.trim().split(" ");
  return identity !== undefined && processIdentity(Number(pid)) === identity
    ? { pid: Number(pid) }
    : undefined;
}

/**
 * Takes a lock that dies with this process: a file that names its owner. A dead owner's file is taken over.
 * Returns {release} when taken, {holder} when a live process has it.
 */
export function tryLock(file) {
  const mine = `${process.pid} ${processIdentity(process.pid)}\n`;
  fs.mkdirSync(path.dirname(file), { recursive: true });
  for (let attempt = 0; attempt < 5; attempt++) {
    if (create(file, mine)) return { release: () => removeIf(file, mine) };
    const holder = lockHolder(file);
    if (holder) return { holder };
    removeStale(file);
  }
  return { holder: { pid: 0 } };
}

/** Returns false when the file is there already. A full disk leaves no empty file. */
function create(file, content) {
  let descriptor;
  try {
    descriptor = fs.openSync(file, "wx", 0o600);
  } catch (error) {
    if (error.code === "EEXIST") return false;
    throw error;
  }
  try {
    fs.writeFileSync(descriptor, content);
    return true;
  } catch (error) {
    fs.unlinkSync(file);
    throw error;
  } finally {
    fs.closeSync(descriptor);
  }
}

/** Waits for the lock, waitMs milliseconds at the most; onWait is called once with the holder. */
export async function waitForLock(file, waitMs, onWait) {
  const deadline = Date.now() + waitMs;
  for (let waited = false; ; waited = true) {
    const { release, holder } = tryLock(file);
    if (release) return release;
    if (Date.now() > deadline) throw new Error(`${file} is still held by process ${holder.pid}`);
    if (!waited) onWait(holder);
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}

/** Two may find the same stale file: it is moved aside first, and put back if it turns out to be a fresh one. */
function removeStale(file) {
  const aside = `${file}.${process.pid}.stale`;
  try {
    fs.renameSync(file, aside);
    if (lockHolder(aside)) fs.linkSync(aside, file);
    fs.unlinkSync(aside);
  } catch (error) {
    if (error.code !== "ENOENT" && error.code !== "EEXIST") throw error;
  }
}

function removeIf(file, content) {
  try {
    if (fs.readFileSync(file, "utf8") === content) fs.unlinkSync(file);
  } catch (error) {
    if (error.code !== "ENOENT") throw error;
  }
}
