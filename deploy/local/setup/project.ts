import { createHash } from "node:crypto";
import path from "node:path";

/** The project's folder. */
export const PROJECT = path.resolve(import.meta.dirname, "..", "..", "..");

/**
 * Returns the place for files that an unprivileged user must reach, if that user cannot enter the folder they belong to.
 * Each folder has its own place, so that several clones do not collide.
 */
export function getRelocatedFolder(folder: string): string {
  return `/var/lib/clinic-service-${createHash("sha256").update(path.resolve(folder)).digest("hex").slice(0, 12)}`;
}

/** Files of one local stack, all under its root: `.local`, or the temporary folder of a test. */
export interface LocalPaths {
  root: string;
  secrets: string;
  lock: string;
  pids: string;
  stack: string;
  /** Secrets of the demo applications. */
  demo: string;
  postgres: string;
  nats: string;
  eventstore: string;
  log: (name: string) => string;
}

export function getLocalPaths(root: string): LocalPaths {
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

/** Returns the folder of `npm start`: LOCAL_DIR, or `.local` in the project. */
export function getLocalRoot(env: NodeJS.ProcessEnv): string {
  return path.resolve(PROJECT, env.LOCAL_DIR ?? ".local");
}

/**
 * Returns the command line that runs a TypeScript entry of the project. If PROJECT_BUILD names a folder with the compiled
 * project, the compiled entry runs: the tests compile once, because each start of a process from source takes a second.
 *
 * @param entry path from the project's folder
 */
export function buildNodeCommand(
  entry: string,
  args: readonly string[] = [],
): { command: string; args: string[] } {
  const build = process.env.PROJECT_BUILD;
  const program = build
    ? ["--enable-source-maps", path.join(build, entry.replace(/\.ts$/, ".js"))]
    : ["--import", "tsx", path.join(PROJECT, entry)];
  return { command: process.execPath, args: [...program, ...args] };
}
