import type { PidRegistry } from "../setup/pid-registry.ts";
import type { LocalPaths } from "../setup/project.ts";
import { SetupError } from "../setup/setup-error.ts";

/** A server or service of the stack, which can be stopped and started again where it was. */
export interface Component {
  readonly name: string;
  /** Somebody else's server, given by a URL: it cannot be stopped or started from here. */
  readonly external: boolean;
  /** The process now running, if any. */
  readonly pid: number | undefined;
  /** Starts it and waits until it is ready, without a bound while its process lives. Does nothing if it runs already. */
  start(): Promise<void>;
  /** Stops it in an orderly way. */
  stop(): Promise<void>;
  /** Ends it with SIGKILL, as a crash would. It stays down until start(). */
  kill9(): Promise<void>;
  /** Resolves when it is ready. @throws {SetupError} when it is not running */
  waitReady(): Promise<void>;
}

/** What the components of one stack have in common. */
export interface ComponentContext {
  paths: LocalPaths;
  pids: PidRegistry;
  log: (line: string) => void;
  /** Whether a component that dies or hangs is started again. */
  restart?: boolean | undefined;
  /** Aborted when the stack is to stop: a start under way ends. */
  signal?: AbortSignal | undefined;
}

/** A server that a URL names and that somebody else runs. */
export function externalComponent(name: string): Component {
  const refuse = async () => {
    throw new SetupError(
      `${name} is an external server, given by its URL: it is not stopped or started from here`,
    );
  };
  return {
    name,
    external: true,
    pid: undefined,
    start: async () => undefined,
    stop: refuse,
    kill9: refuse,
    waitReady: async () => undefined,
  };
}
