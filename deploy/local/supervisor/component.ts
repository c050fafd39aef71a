import type { PidRegistry } from "../setup/pid-registry.ts";
import type { LocalPaths } from "../setup/project.ts";
import { SetupError } from "../setup/setup-error.ts";

/** A server or service of the stack. After a stop, it can be started again with the same port and data. */
export interface Component {
  readonly name: string;
  /** True for an external server, which the stack cannot start or stop. */
  readonly isExternal: boolean;
  /** Pid of the running process; undefined if the component is not running. */
  readonly pid: number | undefined;
  /**
   * Starts the process if it is not running, and waits until it is ready. Fails if the process ends before it is ready.
   */
  start(): Promise<void>;
  /** Stops the process gracefully. */
  stop(): Promise<void>;
  /** Kills the process with SIGKILL. The supervisor does not restart it. */
  kill(): Promise<void>;
  /** Waits until the process is ready. @throws {SetupError} if the component is not running */
  waitUntilReady(): Promise<void>;
}

/** Context that the components of one stack share. */
export interface ComponentContext {
  paths: LocalPaths;
  pids: PidRegistry;
  log: (line: string) => void;
  /** If true, a component that dies or hangs is restarted. */
  shouldRestart?: boolean | undefined;
  /** Aborted to stop the stack, even while it is still starting. */
  signal?: AbortSignal | undefined;
}

/** Creates the component of an external server. The method `start` does nothing; `stop` and `kill` fail. */
export function createExternalComponent(name: string): Component {
  const refuseControl = async () => {
    throw new SetupError(`${name} is an external server. Start and stop it where it runs.`);
  };
  return {
    name,
    isExternal: true,
    pid: undefined,
    start: async () => undefined,
    stop: refuseControl,
    kill: refuseControl,
    waitUntilReady: async () => undefined,
  };
}
