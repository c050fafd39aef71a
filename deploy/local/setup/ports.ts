import { once } from "node:events";
import net from "node:net";
import { SetupError } from "./setup-error.ts";

/** Components that listen, the environment variable that changes their port, and their default port. */
const COMPONENTS = {
  gateway: { variable: "GATEWAY_PORT", port: 8080 },
  command: { variable: "COMMAND_PORT", port: 8081 },
  queryApi: { variable: "QUERY_API_PORT", port: 8082 },
  projection: { variable: "PROJECTION_PORT", port: 8083 },
  audit: { variable: "AUDIT_PORT", port: 8084 },
  eventstore: { variable: "EVENTSTORE_PORT", port: 8113 },
  postgres: { variable: "POSTGRES_PORT", port: 8432 },
  nats: { variable: "NATS_PORT", port: 8422 },
} as const;

export type ComponentName = keyof typeof COMPONENTS;
export type Ports = Record<ComponentName, number>;

/** Free ports are below the ephemeral range, so that no outgoing connection takes one before it is used. */
const MIN_FREE_PORT = 20_000;
const MAX_FREE_PORT = 29_999;
const issuedPorts = new Set<number>();

/** Returns the default ports, changed by the variables. @throws {SetupError} if a variable is not a valid port */
export function readPorts(env: NodeJS.ProcessEnv): Ports {
  const ports = mapComponents((name) => readPort(env, name));
  const byPort = new Map<number, string>();
  for (const name of Object.keys(COMPONENTS) as ComponentName[]) {
    const { variable } = COMPONENTS[name];
    const other = byPort.get(ports[name]);
    if (other)
      throw new SetupError(`${other} and ${variable} are both ${ports[name]}. Set each to a different port.`);
    byPort.set(ports[name], variable);
  }
  return ports;
}

/** Returns eight ports that are free now. This process never returns a port twice. */
export async function findFreePorts(): Promise<Ports> {
  const ports: Partial<Ports> = {};
  for (const name of Object.keys(COMPONENTS) as ComponentName[]) ports[name] = await findFreePort();
  return ports as Ports;
}

/** @throws {SetupError} one line that names the port and tells how to choose another */
export async function requireFreePort(name: ComponentName, port: number): Promise<void> {
  const problem = await findBindError(port);
  if (problem === undefined) return;
  const { variable } = COMPONENTS[name];
  throw new SetupError(
    `${name}: port ${port} cannot be used (${problem}). Stop the program that uses it, or choose another port: ${variable}=${port + 10_000}`,
  );
}

async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < 500; attempt++) {
    const port = MIN_FREE_PORT + Math.floor(Math.random() * (MAX_FREE_PORT - MIN_FREE_PORT + 1));
    if (issuedPorts.has(port) || (await findBindError(port)) !== undefined) continue;
    issuedPorts.add(port);
    return port;
  }
  throw new SetupError(`Found no free port between ${MIN_FREE_PORT} and ${MAX_FREE_PORT}.`);
}

/** Returns the reason why the port cannot be bound on loopback; undefined if it can. */
async function findBindError(port: number): Promise<string | undefined> {
  const server = net.createServer();
  try {
    server.listen({ port, host: "127.0.0.1", exclusive: true });
    await once(server, "listening");
    return undefined;
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    return code === "EADDRINUSE" ? "another program listens on it" : String(code);
  } finally {
    server.close();
  }
}

function readPort(env: NodeJS.ProcessEnv, name: ComponentName): number {
  const { variable, port } = COMPONENTS[name];
  const text = env[variable];
  if (text === undefined || text === "") return port;
  const value = Number(text);
  if (/^\d{1,5}$/.test(text) && value > 0 && value < 65_536) return value;
  throw new SetupError(`${variable} must be a port between 1 and 65535.`);
}

function mapComponents(chosen: (name: ComponentName) => number): Ports {
  const names = Object.keys(COMPONENTS) as ComponentName[];
  return Object.fromEntries(names.map((name) => [name, chosen(name)])) as Ports;
}
