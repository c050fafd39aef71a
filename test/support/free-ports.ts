import { COMPONENT_NAMES, findBindError, type Ports } from "../../deploy/local/setup/ports.ts";

/** Lowest port. All ports are below the ephemeral range, so that no outgoing connection takes one. */
const MIN_PORT = 20_000;
const MAX_PORT = 29_999;
const issuedPorts = new Set<number>();

/** Returns a free port for each component of a stack. */
export async function findFreePorts(): Promise<Ports> {
  const ports: Partial<Ports> = {};
  for (const name of COMPONENT_NAMES) ports[name] = await findFreePort();
  return ports as Ports;
}

/** Returns a free port. Does not return the same port twice in this process. */
export async function findFreePort(): Promise<number> {
  for (let attempt = 0; attempt < 500; attempt++) {
    const port = MIN_PORT + Math.floor(Math.random() * (MAX_PORT - MIN_PORT + 1));
    if (issuedPorts.has(port) || (await findBindError(port)) !== undefined) continue;
    issuedPorts.add(port);
    return port;
  }
  throw new Error(`Found no free port between ${MIN_PORT} and ${MAX_PORT}.`);
}
