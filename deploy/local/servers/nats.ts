import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import { findProgram } from "../setup/system-package.ts";
import { type Component, type ComponentContext, createComponent } from "../supervisor/component.ts";

const INSTALL_ADVICE =
  "Install it (Debian: sudo apt-get install nats-server; macOS: brew install nats-server), or set NATS_URL to a NATS server with JetStream.";

const GREETING_TIMEOUT_MS = 10_000;

/** Installs nats-server if it is missing, but does not start it. */
export async function prepareNats(context: ComponentContext, port: number): Promise<Component> {
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
    isReady: async () => /^INFO .*"jetstream":true/.test((await readGreeting(port)) ?? ""),
    deathSignal: "SIGTERM" as const,
  });
  return createComponent("nats", prepareProcess, context);
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
  return findProgram("nats-server", INSTALL_ADVICE, log);
}

/** Returns the server's first line, which begins with INFO. Returns undefined if the connection fails or times out. */
export async function readGreeting(port: number): Promise<string | undefined> {
  const socket = net.connect({ port, host: "127.0.0.1", timeout: GREETING_TIMEOUT_MS });
  socket.once("timeout", () => socket.destroy(new Error("no greeting in time")));
  try {
    const [chunk] = (await once(socket, "data")) as [Buffer];
    return chunk.toString("utf8");
  } catch {
    return undefined;
  } finally {
    socket.destroy();
  }
}
