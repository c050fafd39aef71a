import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { processIdentity } from "./pid-lock.mjs";
import { savedFile } from "./saved-file.ts";

const entry = z.object({ name: z.string(), pid: z.int().min(2), identity: z.string(), signal: z.string() });
type Entry = z.infer<typeof entry>;

/** A leftover that ignores its stop signal for this long is killed. Milliseconds. */
const STOP_TIMEOUT_MS = 10_000;

/** The processes that this supervisor runs, on disk, so that the next one can stop what a killed one left. */
export interface PidRegistry {
  /** Records a process that was just started. */
  add(name: string, pid: number, stopSignal: NodeJS.Signals): void;
  remove(pid: number): void;
  /** Stops the processes a dead supervisor left; a number that another process has by now is never touched. */
  stopLeftovers(): Promise<void>;
}

/** The registry in the given file. One supervisor at a time: the caller holds the folder's lock. */
export function openPidRegistry(file: string, log: (line: string) => void): PidRegistry {
  const entries = new Map<number, Entry>();
  const saved = savedFile(file, log);
  const save = () => saved.save(JSON.stringify([...entries.values()], null, 2));
  return {
    add(name, pid, signal) {
      const identity = processIdentity(pid);
      if (identity === undefined) return;
      entries.set(pid, { name, pid, identity, signal });
      save();
    },
    remove(pid) {
      if (entries.delete(pid)) save();
    },
    async stopLeftovers() {
      const left = read(file).filter(isAlive);
      for (const { name, pid, signal } of left) {
        log(`stopping ${name} (pid ${pid}), left by a start that was killed`);
        send(pid, signal as NodeJS.Signals);
      }
      await waitGone(left, STOP_TIMEOUT_MS);
      for (const { pid } of left.filter(isAlive)) send(pid, "SIGKILL");
      await waitGone(left, STOP_TIMEOUT_MS);
      saved.remove();
    },
  };
}

function isAlive({ pid, identity }: Entry): boolean {
  return processIdentity(pid) === identity;
}

async function waitGone(left: Entry[], timeoutMs: number): Promise<void> {
  for (const deadline = Date.now() + timeoutMs; left.some(isAlive) && Date.now() < deadline; )
    await sleep(20);
}

/** An unreadable file is one that a crash left half-written; renames make that all but impossible. */
function read(file: string): Entry[] {
  if (!fs.existsSync(file)) return [];
  return z.array(entry).parse(JSON.parse(fs.readFileSync(file, "utf8")));
}

function send(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
