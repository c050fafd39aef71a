import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { withDeathSignal } from "../../deploy/local/setup/processes.mjs";
import { buildNodeCommand } from "../../deploy/local/setup/project.ts";

/** A line of a service's log. */
export interface ServiceLogLine {
  /** Milliseconds since 1970. */
  time: number;
  msg: string;
  url?: string;
  name?: string;
}

/** A service in a separate process. */
export interface ServiceEntryProcess {
  url: string;
  pid: number | undefined;
  /** Log lines that the process has written so far. */
  lines: ServiceLogLine[];
  /**
   * Sends SIGTERM, which starts a drain. Ends the drain with SIGINT when `awaitDrain` resolves; by default, immediately.
   *
   * @returns the exit code
   */
  stop(awaitDrain?: () => Promise<unknown>): Promise<number | null>;
}

/**
 * Starts a service, and waits until it listens. The process is killed if the test's process ends.
 *
 * @param entryFile path of the service's entry, relative to the project's folder
 * @param env complete environment
 */
export async function startServiceEntry(entryFile: string, env: NodeJS.ProcessEnv): Promise<ServiceEntryProcess> {
  const nodeCommand = buildNodeCommand(entryFile);
  const [command, args] = withDeathSignal("SIGKILL", nodeCommand.command, nodeCommand.args);
  const child = spawn(command, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const exitPromise = once(child, "exit") as Promise<[number | null]>;
  const lines: ServiceLogLine[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`${entryFile} ended with ${code}.`)));
    createInterface(child.stdout).on("line", (text) => {
      const line = JSON.parse(text) as ServiceLogLine;
      lines.push(line);
      if (line.url !== undefined) resolve(line.url);
    });
  });
  return {
    ...{ url, pid: child.pid, lines },
    async stop(awaitDrain) {
      child.kill("SIGTERM");
      await awaitDrain?.();
      child.kill("SIGINT");
      const [code] = await exitPromise;
      return code;
    },
  };
}
