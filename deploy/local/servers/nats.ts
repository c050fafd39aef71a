import fs from "node:fs";
import { findProgram } from "../setup/system-package.ts";
import type { Component, ComponentContext } from "../supervisor/component.ts";
import { createComponent } from "../supervisor/supervised-process.ts";
import { type HealthTimings, readGreeting, watchJetStream } from "./nats-health.ts";

const INSTALL_ADVICE =
  "Install it (Debian: sudo apt-get install nats-server; macOS: brew install nats-server), or set NATS_URL to a NATS server with JetStream.";

/**
 * Prepares a nats-server with JetStream on loopback, but does not start it. Installs nats-server if it is missing.
 *
 * @param timings intervals and limits of the health check; tests set shorter intervals
 */
export async function prepareNats(
  context: ComponentContext,
  port: number,
  timings?: HealthTimings,
): Promise<Component> {
  const folder = context.paths.nats;
  const command = await findNatsServer(context.log);
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const config = `${folder}/nats.conf`;
  fs.writeFileSync(config, formatConfiguration(port, folder), { mode: 0o600 });
  const prepareProcess = () => ({
    command,
    args: ["-c", config],
    env: { PATH: process.env.PATH },
    cwd: "/",
    readinessCheck: async () => /^INFO .*"jetstream":true/.test((await readGreeting(port)) ?? ""),
    deathSignal: "SIGTERM" as const,
  });
  const watch = (signal: AbortSignal) => watchJetStream(port, signal, timings);
  return createComponent({ name: "nats", prepareProcess, watch }, context);
}

function formatConfiguration(port: number, folder: string): string {
  return `server_name: "clinic-local"
listen: "127.0.0.1:${port}"
jetstream {
  store_dir: ${JSON.stringify(folder)}
  max_memory_store: 64MB
  max_file_store: 4GB
}
max_payload: 1MB
`;
}

/**
 * Returns the path of nats-server. Installs nats-server with apt-get if it is missing.
 *
 * @throws {SetupError} one line that says how to install nats-server
 */
export function findNatsServer(log: (line: string) => void): Promise<string> {
  return findProgram({ name: "nats-server", installAdvice: INSTALL_ADVICE }, log);
}
