import type { PidRegistry } from "../setup/pid-registry.ts";
import type { LocalPaths } from "../setup/project.ts";
import { SetupError } from "../setup/setup-error.ts";

/** A server or service of the stack. It can be stopped, and started again on the same port and data. */
export interface Component {
  readonly name: string;
  /** True for a server that a URL names and that the stack does not run: it cannot be stopped or started here. */
  readonly isExternal: boolean;
  /** Pid of the running process; undefined if there is none. */
  readonly pid: number | undefined;
  /** Starts it and waits until it is ready, as long as its process lives. Does nothing if it already runs. */
  start(): Promise<void>;
  /** Stops it gracefully. */
  stop(): Promise<void>;
  /** Ends it with SIGKILL, like a crash. It stays down until start(). */
  kill(): Promise<void>;
  /** Waits until it is ready. @throws {SetupError} if it is not running */
  waitUntilReady(): Promise<void>;
}

/** Context that the components of one stack share. */
export interface ComponentContext {
  paths: LocalPaths;
  pids: PidRegistry;
  log: (line: string) => void;
  /** If true, a component that dies or hangs is restarted. */
  restart?: boolean | undefined;
  /** Aborted to stop the stack, also while it starts. */
  signal?: AbortSignal | undefined;
}

/** Represents a server that a URL names and that the stack does not run. */
export function createExternalComponent(name: string): Component {
  const refuse = async () => {
    throw new SetupError(`${name} is an external server. Start and stop it where it runs.`);
  };
  return {
    name,
    isExternal: true,
    pid: undefined,
    start: async () => undefined,
    stop: refuse,
    kill: refuse,
    waitUntilReady: async () => undefined,
  };
}
