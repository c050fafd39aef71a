import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { buildNodeCommand } from "../../deploy/local/setup/project.ts";
import { PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { startServiceEntry } from "../support/service-entry.ts";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));

export interface CliResult {
  code: number;
  stdout: string;
  stderr: string;
}

/** URLs of the servers that a process uses. */
export interface ServiceServers {
  eventstoreUrl: string;
  databaseUrl: string;
  natsUrl?: string;
  /** Value of PERSONAL_DATA_KEYS; default: the master key of the tests. */
  personalDataKeys?: string;
}

/** Returns the command that runs an entry file of a source tree. Entry files in other trees than ROOT are bundled. */
function buildEntryCommand(root: string, entryPath: string, args: readonly string[] = []) {
  if (root === ROOT) return buildNodeCommand(entryPath, args);
  return { command: process.execPath, args: [join(root, entryPath.replace(/\.ts$/, ".js")), ...args] };
}

/**
 * Runs `clinic projection …` in a separate process.
 *
 * @param root source tree; default: this source tree
 */
export function runCli(servers: ServiceServers, args: readonly string[], root = ROOT): Promise<CliResult> {
  const { eventstoreUrl: EVENTSTORE_URL, databaseUrl: DATABASE_URL, natsUrl: NATS_URL = "" } = servers;
  const { personalDataKeys = PERSONAL_DATA_KEYS } = servers;
  const env = { ...process.env, EVENTSTORE_URL, DATABASE_URL, NATS_URL, PERSONAL_DATA_KEYS: personalDataKeys };
  const nodeCommand = buildEntryCommand(root, "projection/cli/main.ts", args);
  return new Promise((resolve) => {
    const child = execFile(nodeCommand.command, nodeCommand.args, { env, cwd: root }, (_, stdout, stderr) =>
      resolve({ code: child.exitCode ?? -1, stdout, stderr }),
    );
  });
}

export interface ServiceOptions extends ServiceServers {
  roles: string;
  /** Value of WEBHOOK_SECRET_KEYS; default: a random key. */
  secretKeys?: object;
  env?: Record<string, string>;
  /** Source tree of the service; default: this source tree. */
  root?: string;
}

export type ServiceProbe = ReturnType<typeof createProbe>;

export type ServiceProcess = Awaited<ReturnType<typeof startService>>;

/** Returns functions that read health and metrics of a running projection service. */
export function createProbe(url: string) {
  return {
    async readHealth() {
      const response = await fetch(`${url}/health/ready`);
      const { parts } = (await response.json()) as { parts: Record<string, string | null> };
      return { status: response.status, parts };
    },
    /** Reads the value of a metric. @returns NaN if the metric does not exist */
    async readGauge(name: string): Promise<number> {
      const text = await (await fetch(`${url}/metrics`)).text();
      const line = text.split("\n").find((candidate) => candidate.startsWith(name));
      return Number(line?.split(" ")[1] ?? Number.NaN);
    },
  };
}

/** Returns the settings of the projection service, with a random key for webhook secrets by default. */
export function buildServiceSettings(options: ServiceOptions): Record<string, string> {
  const { eventstoreUrl, databaseUrl, natsUrl = "nats://127.0.0.1:1", roles } = options;
  const { personalDataKeys = PERSONAL_DATA_KEYS } = options;
  const randomKeys = { current: "a", keys: { a: randomBytes(32).toString("base64") } };
  return {
    PORT: "0",
    ROLES: roles,
    LOG_LEVEL: "info",
    NATS_URL: natsUrl,
    EVENTSTORE_URL: eventstoreUrl,
    DATABASE_URL: databaseUrl,
    WEBHOOK_ALLOW_LOOPBACK: "true",
    PERSONAL_DATA_KEYS: personalDataKeys,
    WEBHOOK_SECRET_KEYS: JSON.stringify(options.secretKeys ?? randomKeys),
    ...options.env,
  };
}

/** Starts the projection service in a separate process, and waits until it listens. */
export async function startService(options: ServiceOptions) {
  const { root = ROOT } = options;
  const env = { ...process.env, ...buildServiceSettings(options) };
  const command = { ...buildEntryCommand(root, "projection/main.ts"), cwd: root };
  const service = await startServiceEntry("projection/main.ts", env, command);
  return { ...service, ...createProbe(service.url), kill: () => service.end("SIGKILL") };
}
