/** Starts nats-servers for tests that kill them or need their own configuration. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import fs from "node:fs";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { findNatsServer, readGreeting } from "../../deploy/local/servers/nats.ts";
import { withDeathSignal } from "../../deploy/local/setup/processes.mjs";
import { eventually } from "./eventually.ts";
import { findFreePort, findFreePorts } from "./free-ports.ts";
import { releaseLater } from "./resources.ts";
import { makeTestRoot } from "./stack.ts";

/** A nats-server in its own process. */
export interface NatsServer {
  /** Host and port. */
  host: string;
  /** Starts the server again after `kill`, and waits until it accepts connections. */
  start(): Promise<void>;
  kill(): Promise<void>;
  /** Deletes all data of the stopped server. */
  wipe(): void;
  /** Returns true if the server's JetStream replicas are up to date; always false for a server of `startNatsServer`. */
  isHealthy(): Promise<boolean>;
}

/** Returns the path of a PEM file in test/support/tls. */
export function getTlsFile(name: string): string {
  return fileURLToPath(new URL(`tls/${name}.pem`, import.meta.url));
}

/** TLS options of a nats-server that requires client certificates. */
export const TLS_BLOCK = `tls {
  cert_file: ${JSON.stringify(getTlsFile("server.cert"))}
  key_file: ${JSON.stringify(getTlsFile("server.key"))}
  ca_file: ${JSON.stringify(getTlsFile("servers-ca.cert"))}
  verify: true
}`;

/** Starts a nats-server on loopback. @param config options of the server, except `listen` */
export async function startNatsServer(config: string): Promise<NatsServer> {
  const port = await findFreePort();
  const server = await prepareNatsServer(port, undefined, () => config);
  releaseLater(() => server.kill());
  await server.start();
  return server;
}

/**
 * Starts a cluster of three nats-servers with JetStream on loopback. Does not wait until the cluster is formed.
 *
 * @param config options of every server except `listen`, `server_name`, `http`, `jetstream` and `cluster`
 */
export async function startNatsCluster(config: string): Promise<NatsServer[]> {
  const [ports, morePorts] = [await findFreePorts(), await findFreePorts()];
  const healthPorts = [morePorts.nats, morePorts.gateway, morePorts.command];
  const clientPorts = [ports.nats, ports.gateway, ports.command];
  const routePorts = [ports.queryApi, ports.projection, ports.audit];
  const routes = routePorts.map((port) => `nats://127.0.0.1:${port}`).join(", ");
  const servers = await Promise.all(
    clientPorts.map((port, index) =>
      prepareNatsServer(
        port,
        healthPorts[index],
        (folder) => `server_name: "n${index + 1}"
http: "127.0.0.1:${healthPorts[index]}"
jetstream { store_dir: ${JSON.stringify(folder)}, max_file_store: 64MB }
cluster { name: "test", listen: "127.0.0.1:${routePorts[index]}", routes: [${routes}] }
${config}`,
      ),
    ),
  );
  for (const server of servers) releaseLater(() => server.kill());
  await Promise.all(servers.map((server) => server.start()));
  return servers;
}

async function prepareNatsServer(
  port: number,
  healthPort: number | undefined,
  createConfig: (folder: string) => string,
): Promise<NatsServer> {
  const program = await findNatsServer(() => undefined);
  const root = makeTestRoot();
  const dataFolder = path.join(root, "data");
  const configFile = path.join(root, "nats.conf");
  fs.writeFileSync(configFile, `listen: "127.0.0.1:${port}"\n${createConfig(dataFolder)}\n`);
  let child: ChildProcess | undefined;
  return {
    host: `127.0.0.1:${port}`,
    async start() {
      const [command, args] = withDeathSignal("SIGKILL", program, ["-c", configFile, "-l", path.join(root, "log")]);
      child = spawn(command, args, { stdio: "ignore" });
      await eventually("the nats-server", () => readGreeting(port));
    },
    async kill() {
      if (!child || child.exitCode !== null || child.signalCode !== null) return;
      const exitPromise = once(child, "exit");
      child.kill("SIGKILL");
      await exitPromise;
    },
    async isHealthy() {
      const response = await fetch(`http://127.0.0.1:${healthPort}/healthz`).catch(() => undefined);
      return response?.status === 200;
    },
    wipe: () => fs.rmSync(dataFolder, { recursive: true, force: true }),
  };
}
