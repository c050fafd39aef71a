import fs from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { readProcessIdentity } from "./pid-lock.mjs";
import { createSavedFile } from "./saved-file.ts";

const processSchema = z.object({
  name: z.string(),
  pid: z.int().min(2),
  identity: z.string(),
  signal: z.string(),
});
type RegisteredProcess = z.infer<typeof processSchema>;

/**
 * Time limit in milliseconds for a leftover process to end after its stop signal. After this time, the process is
 * killed.
 */
const STOP_TIMEOUT_MS = 10_000;

/**
 * A file that lists the processes of a supervisor. If the supervisor is killed, the next start stops these processes.
 */
export interface PidRegistry {
  /** Records a process that has just started. */
  add(name: string, pid: number, stopSignal: NodeJS.Signals): void;
  remove(pid: number): void;
  /** Stops the processes of a killed supervisor. Skips an unrelated process that has reused a pid. */
  stopLeftovers(): Promise<void>;
}

/** Opens the registry. The caller must hold the lock of the file's folder. */
export function openPidRegistry(file: string, log: (line: string) => void): PidRegistry {
  const processes = new Map<number, RegisteredProcess>();
  const savedFile = createSavedFile(file, log);
  const save = () => savedFile.save(JSON.stringify([...processes.values()], null, 2));
  return {
    add(name, pid, signal) {
      const identity = readProcessIdentity(pid);
      if (identity === undefined) return;
      processes.set(pid, { name, pid, identity, signal });
      save();
    },
    remove(pid) {
      if (processes.delete(pid)) save();
    },
    async stopLeftovers() {
      const leftovers = readProcesses(file).filter(isAlive);
      for (const { name, pid, signal } of leftovers) {
        log(`Stopping ${name} (pid ${pid}). An earlier start was killed and left it running.`);
        sendSignal(pid, signal as NodeJS.Signals);
      }
      await waitForExit(leftovers);
      for (const { pid } of leftovers.filter(isAlive)) sendSignal(pid, "SIGKILL");
      await waitForExit(leftovers);
      savedFile.remove();
    },
  };
}

function isAlive({ pid, identity }: RegisteredProcess): boolean {
  return readProcessIdentity(pid) === identity;
}

async function waitForExit(leftovers: RegisteredProcess[]): Promise<void> {
  const deadline = Date.now() + STOP_TIMEOUT_MS;
  while (leftovers.some(isAlive) && Date.now() < deadline) await sleep(20);
}

/**
 * @throws {Error} if the file is damaged; a crash cannot damage it, because each save replaces the file in one step
 */
function readProcesses(file: string): RegisteredProcess[] {
  if (!fs.existsSync(file)) return [];
  return z.array(processSchema).parse(JSON.parse(fs.readFileSync(file, "utf8")));
}

function sendSignal(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}
