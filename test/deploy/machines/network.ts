/**
 * Simulates the internet and the local network on this machine. A bridge connects a name server and one network
 * namespace for each machine and for the partner's receiver. No packet leaves this machine.
 */
import { createSocket, type Socket } from "node:dgram";
import { once } from "node:events";
import packet from "dns-packet";
import { runChecked } from "../process.ts";

const BRIDGE = "machine-br";
/** Address of this machine: gateway and name server of the simulated network. */
export const GATEWAY = "198.51.100.1";
/** Address of the partner's receiver. It is public, because webhooks are sent only to public addresses. */
const RECEIVER_ADDRESS = "11.0.0.1";
export const PUBLIC_NAME = "clinic.example.com";
export const RECEIVER_NAME = "hooks.example.com";
export const RECEIVER_NAMESPACE = "machine-hooks";

const addresses: Record<string, string[]> = {
  "a.example": ["198.51.100.11"],
  "b.example": ["198.51.100.12"],
  "c.example": ["198.51.100.13"],
  [PUBLIC_NAME]: ["198.51.100.11", "198.51.100.12"],
  [RECEIVER_NAME]: [RECEIVER_ADDRESS],
};

/** Returns the addresses of a host in the simulated network; empty if the host is unknown. */
export const getAddresses = (host: string): string[] => addresses[host] ?? [];

const ip = (command: string) => runChecked("ip", command.split(" "));

/**
 * Creates the bridge and the namespaces `machine-a`, `machine-b`, `machine-c` and `machine-hooks`.
 *
 * @throws {Error} if this machine already uses the addresses of the network
 */
export async function createNetwork(): Promise<void> {
  await removeNetwork();
  if (/198\.51\.100\.|\b11\.0\.0\./.test(await ip("addr"))) throw new Error("the addresses of the test are in use");
  await ip(`link add ${BRIDGE} type bridge`);
  await ip(`addr add ${GATEWAY}/24 dev ${BRIDGE}`);
  await ip(`link set ${BRIDGE} up`);
  for (const machine of ["a", "b", "c"]) {
    await createNamespace(`machine-${machine}`, `${getAddresses(`${machine}.example`)[0]}/24`);
    await ip(`-n machine-${machine} route add default via ${GATEWAY}`);
    await ip(`-n machine-${machine} route add ${RECEIVER_ADDRESS} dev eth0`);
  }
  await createNamespace(RECEIVER_NAMESPACE, `${RECEIVER_ADDRESS}/32`);
  await ip(`-n ${RECEIVER_NAMESPACE} route add ${GATEWAY.replace(/1$/, "0/24")} dev eth0`);
}

async function createNamespace(name: string, address: string): Promise<void> {
  await ip(`netns add ${name}`);
  await ip(`link add ${name} type veth peer name eth0 netns ${name}`);
  await ip(`link set ${name} master ${BRIDGE} up`);
  await ip(`-n ${name} addr add ${address} dev eth0`);
  await ip(`-n ${name} link set eth0 up`);
  await ip(`-n ${name} link set lo up`);
}

/** Connects or disconnects a machine. Packets to a disconnected machine are lost. */
export async function setConnected(machine: string, isConnected: boolean): Promise<void> {
  await ip(`link set machine-${machine} ${isConnected ? "up" : "down"}`);
}

export async function removeNetwork(): Promise<void> {
  const [links, namespaces] = [await ip("-brief link"), await ip("netns list")];
  for (const name of ["machine-a", "machine-b", "machine-c", RECEIVER_NAMESPACE]) {
    if (links.includes(`${name}@`)) await ip(`link del ${name}`);
    if (namespaces.includes(name)) await ip(`netns del ${name}`);
  }
  if (links.includes(BRIDGE)) await ip(`link del ${BRIDGE}`);
}

/** Starts the name server, which knows only the hosts of the simulated network. */
export async function startNameServer(): Promise<Socket> {
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
