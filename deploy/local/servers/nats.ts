import fs from "node:fs";
import { findProgram } from "../setup/system-package.ts";
import type { Component, ComponentContext } from "../supervisor/component.ts";
import { openLogFile } from "../supervisor/log-file.ts";
import { startProcess } from "../supervisor/process.ts";
import { createComponent } from "../supervisor/supervised-process.ts";
import { readGreeting, watchJetStream } from "./nats-health.ts";

/** Prepares a nats-server with JetStream on loopback, and installs it if it is missing. Does not start it. */
export async function prepareNats(context: ComponentContext, port: number): Promise<Component> {
  const { paths, pids, log } = context;
  const command = await findNatsServer(log);
  fs.mkdirSync(paths.nats, { recursive: true, mode: 0o700 });
  const config = `${paths.nats}/nats.conf`;
  fs.writeFileSync(config, formatConfiguration(port, paths.nats), { mode: 0o600 });
  const output = openLogFile(paths.log("nats"));
  const launch = () =>
    startProcess(
      {
        name: "nats",
        command,
        args: ["-c", config],
        env: { PATH: process.env.PATH },
        cwd: "/",
        ready: () => hasJetStream(port),
        log: output,
        deathSignal: "SIGTERM",
      },
      pids,
    );
  return createComponent({ name: "nats", launch, watch: (signal) => watchJetStream(port, signal) }, context);
}

function formatConfiguration(port: number, folder: string): string {
  return [
    'server_name: "clinic-local"',
    `listen: "127.0.0.1:${port}"`,
    "jetstream {",
    `  store_dir: ${JSON.stringify(folder)}`,
    "  max_memory_store: 64MB",
    "  max_file_store: 4GB",
    "}",
    "max_payload: 1MB",
    "",
  ].join("\n");
}

/** The greeting tells whether JetStream is on. */
async function hasJetStream(port: number): Promise<boolean> {
  return /^INFO .*"jetstream":true/.test((await readGreeting(port)) ?? "");
}

const INSTALL_ADVICE =
  "Install it (Debian: sudo apt-get install nats-server), or set NATS_URL to a NATS server with JetStream.";

/**
 * Returns the path of nats-server. Installs it with the system's package manager if it is missing.
 *
 * @throws {SetupError} one line that says how to install it
 */
export function findNatsServer(log: (line: string) => void): Promise<string> {
  return findProgram({ name: "nats-server", installAdvice: INSTALL_ADVICE }, log);
}
