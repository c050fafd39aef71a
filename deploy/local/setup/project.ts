import { createHash } from "node:crypto";
import path from "node:path";

/** The project's folder. */
export const PROJECT = path.resolve(import.meta.dirname, "..", "..", "..");

/**
 * Where things that belong to a folder go when an unprivileged user must reach them and cannot reach that folder.
 * One place a folder, so that clones do not meet.
 */
export function relocationOf(folder: string): string {
  return `/var/lib/clinic-service-${createHash("sha256").update(path.resolve(folder)).digest("hex").slice(0, 12)}`;
}

/** The files of one local stack, all under its root (`.local`, or a test's temporary folder). */
export interface LocalPaths {
  root: string;
  secrets: string;
  lock: string;
  pids: string;
  stack: string;
  /** Secrets of the demo's applications. */
  demo: string;
  postgres: string;
  nats: string;
  eventstore: string;
  log: (name: string) => string;
}

export function localPaths(root: string): LocalPaths {
  const at = (name: string) => path.join(root, name);
  return {
    root,
    secrets: at("secrets.json"),
    lock: at("lock"),
    pids: at("pids.json"),
    stack: at("stack.json"),
    demo: at("demo-credentials.json"),
    postgres: at("postgres"),
    nats: at("nats"),
    eventstore: at("eventstore"),
    log: (name) => at(path.join("logs", `${name}.log`)),
  };
}

/** The folder of `npm start`: LOCAL_DIR, or `.local` in the project. */
export function localRoot(env: NodeJS.ProcessEnv): string {
  return path.resolve(PROJECT, env.LOCAL_DIR ?? ".local");
}

/** The command line of one of the project's TypeScript entries. */
export function nodeEntry(entry: string, args: readonly string[] = []): { command: string; args: string[] } {
  return { command: process.execPath, args: ["--import", "tsx", path.join(PROJECT, entry), ...args] };
}
