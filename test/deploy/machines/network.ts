/**
 * A network of this machine that stands for the internet and the local network: a bridge with a name server, and one
 * network namespace for each machine. Nothing leaves this machine.
 */
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import packet from "dns-packet";
import { run } from "./shell.ts";

const BRIDGE = "machine-br";
/** Address of this machine in the network, of the name server, and gateway of the machines. */
export const GATEWAY = "198.51.100.1";
/** Address of the partner's receiver. Webhooks are sent only to public addresses. */
export const RECEIVER_ADDRESS = "11.0.0.1";
export const PUBLIC_NAME = "clinic.example.com";
export const RECEIVER_NAME = "hooks.example.com";

const addresses: Record<string, string[]> = {
  "a.example": ["198.51.100.11"],
  "b.example": ["198.51.100.12"],
  "c.example": ["198.51.100.13"],
  [PUBLIC_NAME]: ["198.51.100.11", "198.51.100.12"],
  [RECEIVER_NAME]: [RECEIVER_ADDRESS],
};

/** Returns the addresses of a host of the network; empty if the host is unknown. */
export const getAddresses = (host: string): string[] => addresses[host] ?? [];

const ip = (command: string) => run("ip", command.split(" "));

/**
 * Creates the bridge and the namespaces `machine-a`, `machine-b` and `machine-c`. Returns a function that removes them.
 *
 * @throws {Error} if this machine already uses the addresses of the network
 */
export async function createNetwork(): Promise<() => Promise<void>> {
  await removeNetwork();
  if (/198\.51\.100\.|\b11\.0\.0\./.test(await ip("addr"))) throw new Error("the addresses of the test are in use");
  await ip(`link add ${BRIDGE} type bridge`);
  await ip(`addr add ${GATEWAY}/24 dev ${BRIDGE}`);
  await ip(`addr add ${RECEIVER_ADDRESS}/32 dev ${BRIDGE}`);
  await ip(`link set ${BRIDGE} up`);
  for (const machine of ["a", "b", "c"]) {
    const namespace = `machine-${machine}`;
    await ip(`netns add ${namespace}`);
    await ip(`link add ${namespace} type veth peer name eth0 netns ${namespace}`);
    await ip(`link set ${namespace} master ${BRIDGE} up`);
    await ip(`-n ${namespace} addr add ${getAddresses(`${machine}.example`)[0]}/24 dev eth0`);
    await ip(`-n ${namespace} link set eth0 up`);
    await ip(`-n ${namespace} link set lo up`);
    await ip(`-n ${namespace} route add default via ${GATEWAY}`);
  }
  const nameServer = await startNameServer();
  return async () => {
    nameServer.close();
    await removeNetwork();
  };
}

/** Connects a machine to the network, or disconnects it. Packets to a disconnected machine are lost. */
export async function setConnected(machine: string, isConnected: boolean): Promise<void> {
  await ip(`link set machine-${machine} ${isConnected ? "up" : "down"}`);
}

async function removeNetwork(): Promise<void> {
  const [links, namespaces] = [await ip("-brief link"), await ip("netns list")];
  for (const name of ["machine-a", "machine-b", "machine-c"]) {
    if (links.includes(`${name}@`)) await ip(`link del ${name}`);
    if (namespaces.includes(name)) await ip(`netns del ${name}`);
  }
  if (links.includes(BRIDGE)) await ip(`link del ${BRIDGE}`);
}

async function startNameServer(): Promise<Socket> {
  const socket = createSocket("udp4");
  socket.on("message", (message, { port, address }) => {
    const { id = 0, questions = [] } = packet.decode(message);
    const answers = questions.flatMap(({ type, name }) =>
      type === "A" ? getAddresses(name).map((data) => ({ type, name, ttl: 5, data })) : [],
    );
    const isKnown = questions.some(({ name }) => getAddresses(name).length > 0);
    const NXDOMAIN = 3;
    const flags = isKnown ? packet.RECURSION_AVAILABLE : packet.RECURSION_AVAILABLE | NXDOMAIN;
    socket.send(packet.encode({ type: "response", id, flags, questions, answers }), port, address);
  });
  socket.bind(53, GATEWAY);
  await once(socket, "listening");
  return socket;
}
