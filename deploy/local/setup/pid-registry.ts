import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { readProcessIdentity } from "./pid-lock.mjs";
import { createSavedFile } from "./saved-file.ts";

const entrySchema = z.object({
  name: z.string(),
  pid: z.int().min(2),
  identity: z.string(),
  signal: z.string(),
});
type Entry = z.infer<typeof entrySchema>;

/** A leftover process is killed if it ignores its stop signal for this long. Milliseconds. */
const STOP_TIMEOUT_MS = 10_000;

/** File that lists the processes of a supervisor, so that the next one can stop them if the first was killed. */
export interface PidRegistry {
  /** Records a process that has just started. */
  add(name: string, pid: number, stopSignal: NodeJS.Signals): void;
  remove(pid: number): void;
  /** Stops the processes that a dead supervisor left. Never touches another process that has the same pid by now. */
  stopLeftovers(): Promise<void>;
}

/** Opens the registry in a file. The caller holds the folder's lock, so only one supervisor uses it. */
export function openPidRegistry(file: string, log: (line: string) => void): PidRegistry {
  const entries = new Map<number, Entry>();
  const saved = createSavedFile(file, log);
  const save = () => saved.save(JSON.stringify([...entries.values()], null, 2));
  return {
    add(name, pid, signal) {
      const identity = readProcessIdentity(pid);
      if (identity === undefined) return;
      entries.set(pid, { name, pid, identity, signal });
      save();
    },
    remove(pid) {
      if (entries.delete(pid)) save();
    },
    async stopLeftovers() {
      const left = readEntries(file).filter(isAlive);
      for (const { name, pid, signal } of left) {
        log(`Stopping ${name} (pid ${pid}), left by a start that was killed.`);
        sendSignal(pid, signal as NodeJS.Signals);
      }
      await waitForExit(left, STOP_TIMEOUT_MS);
      for (const { pid } of left.filter(isAlive)) sendSignal(pid, "SIGKILL");
      await waitForExit(left, STOP_TIMEOUT_MS);
      saved.remove();
    },
  };
}

function isAlive({ pid, identity }: Entry): boolean {
  return readProcessIdentity(pid) === identity;
}

async function waitForExit(left: Entry[], timeoutMs: number): Promise<void> {
  for (const deadline = Date.now() + timeoutMs; left.some(isAlive) && Date.now() < deadline; )
    await sleep(20);
}

/** @throws if the file is damaged; writes replace it as a whole, so a crash does not leave a part of it */
function readEntries(file: string): Entry[] {
  if (!fs.existsSync(file)) return [];
  return z.array(entrySchema).parse(JSON.parse(fs.readFileSync(file, "utf8")));
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
