/** Runs the embedded log as a process that tests can kill and restart. It is killed after the test or suite. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { EventStoreDBClient } from "@eventstore/db-client";
import { withDeathSignal } from "../../../deploy/local/setup/processes.mjs";
import { buildNodeCommand } from "../../../deploy/local/setup/project.ts";
import { releaseLater } from "../../support/resources.ts";

process.env.no_grpc_proxy = "127.0.0.1,localhost";

export interface ProcessExit {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export class LogProcess {
  readonly #child: ChildProcess;
  readonly exitPromise: Promise<ProcessExit>;
  #stdout = "";
  #stderr = "";

  /**
   * @param fileLimitKib maximum size of each file that the process writes; default: unlimited
   * @param env additional environment variables
   */
  constructor(args: readonly string[], fileLimitKib?: number, env: Record<string, string> = {}) {
    const nodeCommand = buildNodeCommand("deploy/local/eventstore/main.ts", args);
    const command = [nodeCommand.command, ...nodeCommand.args];
    const shellArgs = ["-c", `ulimit -f ${fileLimitKib}; exec "$@"`, "sh", ...command];
    const [program = "", ...programArgs] = fileLimitKib === undefined ? command : ["bash", ...shellArgs];
    this.#child = spawn(...withDeathSignal("SIGKILL", program, programArgs), {
      stdio: ["ignore", "pipe", "pipe"],
      env: { ...process.env, ...env },
    });
    this.#child.stdout?.on("data", (chunk) => {
      this.#stdout += String(chunk);
    });
    this.#child.stderr?.on("data", (chunk) => {
      this.#stderr += String(chunk);
    });
    this.exitPromise = once(this.#child, "close").then(([code, signal]) => ({
      code: code as number | null,
      signal: signal as NodeJS.Signals | null,
      stdout: this.#stdout,
      stderr: this.#stderr,
    }));
    releaseLater(() => this.kill("SIGKILL"));
  }

  /** Starts a log and waits until its port accepts connections. */
  static async start(
    dir: string,
    port = 0,
    fileLimitKib?: number,
    env: Record<string, string> = {},
  ): Promise<LogProcess> {
    const log = new LogProcess(["--dir", dir, "--port", String(port)], fileLimitKib, env);
    await Promise.race([
      log.waitUntilListening(),
      log.exitPromise.then(({ stderr }) => {
        throw new Error(`the log exited before it listened: ${stderr}`);
      }),
    ]);
    return log;
  }

  async waitUntilListening(): Promise<void> {
    while (!this.#stdout.includes("\n") && this.#child.stdout !== null) await once(this.#child.stdout, "data");
  }

  get port(): number {
    return Number(/^listening (\d+)\n/.exec(this.#stdout)?.[1]);
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  createClient(): EventStoreDBClient {
    return createClient(this.port);
  }

  async kill(signal: NodeJS.Signals = "SIGTERM"): Promise<ProcessExit> {
    this.#child.kill(signal);
    return this.exitPromise;
  }
}

export function createClient(port: number): EventStoreDBClient {
  const client = EventStoreDBClient.connectionString(`esdb://127.0.0.1:${port}?tls=false`);
  releaseLater(() => client.dispose());
  return client;
}

/** Creates a directory that is deleted after the test or suite. */
export function makeTemporaryDir(): string {
  const dir = mkdtempSync(join(tmpdir(), "embedded-log-"));
  releaseLater(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}
