import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { withDeathSignal } from "../../deploy/local/setup/processes.mjs";
import { buildNodeCommand } from "../../deploy/local/setup/project.ts";
import { releaseLater } from "./resources.ts";

/** A line of a service's log. */
export interface LogLine {
  /** Milliseconds since 1970. */
  time: number;
  level: string;
  msg: string;
  url?: string;
  name?: string;
  role?: string;
  error?: { message: string };
}

export type ServiceEntryProcess = Awaited<ReturnType<typeof startServiceEntry>>;

/**
 * Starts a service in a separate process, and waits until it listens. It is killed after the test or suite, or when the
 * test's process ends.
 *
 * @param entryFile path of the entry, relative to the project's folder
 * @param env complete environment
 * @param nodeCommand default: the command for the entry in this source tree
 */
export async function startServiceEntry(
  entryFile: string,
  env: NodeJS.ProcessEnv,
  nodeCommand: ReturnType<typeof buildNodeCommand> & { cwd?: string } = buildNodeCommand(entryFile),
) {
  const [command, args] = withDeathSignal("SIGKILL", nodeCommand.command, nodeCommand.args);
  const child = spawn(command, args, { cwd: nodeCommand.cwd, env, stdio: ["ignore", "pipe", "inherit"] });
  const exitPromise = once(child, "exit") as Promise<[number | null]>;
  const end = async (signal: NodeJS.Signals) => {
    child.kill(signal);
    const [code] = await exitPromise;
    return code;
  };
  releaseLater(() => end("SIGKILL"));
  const lines: LogLine[] = [];
  const url = await new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`${entryFile} ended with ${code}.`)));
    createInterface(child.stdout).on("line", (text) => {
      const line = JSON.parse(text) as LogLine;
      lines.push(line);
      if (line.url !== undefined) resolve(line.url);
    });
  });
  return {
    child,
    url,
    pid: child.pid,
    /** Log lines that the process has written so far. */
    lines,
    /** Sends a signal, and waits until the process has ended. Returns the exit code. */
    end,
    /**
     * Sends SIGTERM, which starts the drain. When `awaitDrain` resolves (by default at once), sends SIGINT, which ends
     * it.
     *
     * @returns the exit code
     */
    async stop(awaitDrain?: () => Promise<unknown>) {
      child.kill("SIGTERM");
      await awaitDrain?.();
      return end("SIGINT");
    },
  };
}
