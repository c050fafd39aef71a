import { once } from "node:events";
import net from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { SetupError } from "./setup-error.ts";

/** Environment variable and default port of each component. */
const COMPONENTS = {
  gateway: { variable: "GATEWAY_PORT", port: 8080 },
  command: { variable: "COMMAND_PORT", port: 8081 },
  queryApi: { variable: "QUERY_API_PORT", port: 8082 },
  projection: { variable: "PROJECTION_PORT", port: 8083 },
  audit: { variable: "AUDIT_PORT", port: 8084 },
  operations: { variable: "OPERATIONS_PORT", port: 8085 },
  eventstore: { variable: "EVENTSTORE_PORT", port: 8113 },
  postgres: { variable: "POSTGRES_PORT", port: 8432 },
  nats: { variable: "NATS_PORT", port: 8422 },
} as const;

export type ComponentName = keyof typeof COMPONENTS;
export type Ports = Record<ComponentName, number>;

export const COMPONENT_NAMES = Object.keys(COMPONENTS) as ComponentName[];

const PORT_TIMEOUT_MS = 2_000;

/**
 * Returns the port of each component: the value of its environment variable, or its default port.
 *
 * @throws {SetupError} if a variable is not a valid port, or two components have the same port
 */
export function readPorts(env: NodeJS.ProcessEnv): Ports {
  const ports: Partial<Ports> = {};
  const variablesByPort = new Map<number, string>();
  for (const name of COMPONENT_NAMES) {
    const { variable } = COMPONENTS[name];
    const port = readPort(env, name);
    const duplicateVariable = variablesByPort.get(port);
    if (duplicateVariable)
      throw new SetupError(`${duplicateVariable} and ${variable} are both ${port}. Set each to a different port.`);
    variablesByPort.set(port, variable);
    ports[name] = port;
  }
  return ports as Ports;
}

/**
 * Waits up to two seconds for a free port, because the processes of a killed stack may still be ending.
 *
 * @throws {SetupError} if the port cannot be used; the message suggests another port
 */
export async function requireFreePort(name: ComponentName, port: number): Promise<void> {
  const deadline = Date.now() + PORT_TIMEOUT_MS;
  let problem = await findBindError(port);
  while (problem !== undefined && Date.now() < deadline) {
    await sleep(50);
    problem = await findBindError(port);
  }
  if (problem === undefined) return;
  const { variable } = COMPONENTS[name];
  throw new SetupError(
    `${name}: port ${port} cannot be used (${problem}). Stop the program that uses it, or choose another port: ${variable}=${port + 10_000}`,
  );
}

/** Returns the reason why a port cannot be used; undefined if the port is free. */
export async function findBindError(port: number): Promise<string | undefined> {
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
  const parsedPort = Number(text);
  if (/^\d{1,5}$/.test(text) && parsedPort > 0 && parsedPort < 65_536) return parsedPort;
  throw new SetupError(`${variable} must be a port between 1 and 65535.`);
}
