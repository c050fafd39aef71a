// Forwards DNS queries to the name servers of this container. `command` is only in internal networks, where engines
// resolve no public names, so it sends the lookups of webhook endpoints here.
import { createSocket } from "node:dgram";
import { getServers } from "node:dns";

const PORT = 5353;
const TIMEOUT_MS = 5_000;
const MAX_QUERIES = 200;

let queryCount = 0;
const server = createSocket("udp4");
server.on("message", (query, client) => {
  // A datagram with the source port 0 cannot be answered.
  if (queryCount >= MAX_QUERIES || client.port === 0) return;
  queryCount++;
  // Each query has a socket of its own, so that its port is random and only the name server can answer.
  const socket = createSocket("udp4");
  const timer = setTimeout(() => socket.close(), TIMEOUT_MS);
  socket.on("error", () => socket.close());
  socket.on("close", () => {
    clearTimeout(timer);
    queryCount--;
  });
  socket.on("message", (answer) => {
    // Without a callback, an answer that cannot be sent would end the process.
    server.send(answer, client.port, client.address, () => undefined);
    socket.close();
  });
  const [nameServer] = getServers().filter((address) => !address.includes(":"));
  socket.once("connect", () => socket.send(query));
  socket.connect(53, nameServer);
});
server.bind(PORT);
process.once("SIGTERM", () => process.exit(0));
