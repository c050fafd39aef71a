import { type ChildProcess, execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { buildNodeCommand } from "../../deploy/local/setup/project.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

/** What a command line said. */
export interface CliResult {
  code: number;
  out: string;
  err: string;
}

/** Servers that a process is to use. */
export interface ServiceServers {
  eventstoreUrl: string;
  databaseUrl: string;
  natsUrl?: string;
}

/** Only this source tree is compiled for the tests. */
function entryOf(root: string, entry: string, args: readonly string[] = []) {
  if (root === ROOT) return buildNodeCommand(entry, args);
  return { command: process.execPath, args: ["--import=tsx", join(root, entry), ...args] };
}

/**
 * Runs `npm run projection -- …`.
 *
 * @param root the source tree that it is from; this one if absent
 */
export function runCli(servers: ServiceServers, args: readonly string[], root = ROOT): Promise<CliResult> {
  const { eventstoreUrl: EVENTSTORE_URL, databaseUrl: DATABASE_URL, natsUrl: NATS_URL = "" } = servers;
  const env = { ...process.env, EVENTSTORE_URL, DATABASE_URL, NATS_URL };
  const entry = entryOf(root, "projection/cli/main.ts", args);
  return new Promise((resolve) => {
    const child = execFile(entry.command, entry.args, { env, cwd: root }, (_, out, err) =>
      resolve({ code: child.exitCode ?? -1, out, err }),
    );
  });
}

export interface ServiceOptions extends ServiceServers {
  roles: string;
  /** WEBHOOK_SECRET_KEYS; made up if absent. */
  secretKeys?: object;
  /** The source tree that it runs; this one if absent. */
  root?: string;
}

export interface LogLine {
  level: string;
  msg: string;
  role?: string;
  error?: { message: string };
}

/** The projection service as a real process. */
export interface ServiceProcess {
  child: ChildProcess;
  url: string;
  /** Its log lines so far. */
  lines: LogLine[];
  health(): Promise<{ status: number; parts: Record<string, string | null> }>;
  /** A gauge's value; NaN if it is not there. */
  gauge(name: string): Promise<number>;
  /** Ends it, if it still runs. */
  kill(): Promise<void>;
}

/** Starts the projection service and waits until it listens. */
export async function startService(options: ServiceOptions): Promise<ServiceProcess> {
  const { eventstoreUrl, databaseUrl, natsUrl = "nats://127.0.0.1:1", roles, root = ROOT } = options;
  const madeUp = { current: "a", keys: { a: randomBytes(32).toString("base64") } };
  const entry = entryOf(root, "projection/main.ts");
  const child = spawn(entry.command, entry.args, {
    cwd: root,
    env: {
      ...process.env,
      ...{ PORT: "0", ROLES: roles, LOG_LEVEL: "info", NATS_URL: natsUrl },
      ...{ EVENTSTORE_URL: eventstoreUrl, DATABASE_URL: databaseUrl, WEBHOOK_ALLOW_LOOPBACK: "true" },
      WEBHOOK_SECRET_KEYS: JSON.stringify(options.secretKeys ?? madeUp),
    },
    stdio: ["ignore", "pipe", "inherit"],
  });
  // A test that fails halfway must not leave it running.
  const killAtExit = () => child.kill("SIGKILL");
  process.once("exit", killAtExit);
  const ended = once(child, "exit").then(() => process.off("exit", killAtExit));
  const lines: ServiceProcess["lines"] = [];
  const url = await new Promise<string>((resolve, reject) => {
    child.once("exit", (code) => reject(new Error(`the projection service ended with ${code}`)));
    createInterface(child.stdout).on("line", (text) => {
      const line = JSON.parse(text) as LogLine & { url: string };
      lines.push(line);
      if (line.msg === "The projection service is running.") resolve(line.url);
    });
  });
  return {
    ...{ child, url, lines },
    async health() {
      const response = await fetch(`${url}/health/ready`);
      const { parts } = (await response.json()) as { parts: Record<string, string | null> };
      return { status: response.status, parts };
    },
    async gauge(name) {
      const text = await (await fetch(`${url}/metrics`)).text();
      const line = text.split("\n").find((one) => one.startsWith(name));
      return Number(line?.split(" ")[1] ?? Number.NaN);
    },
    async kill() {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
