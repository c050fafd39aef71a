/**
 * Runs the embedded log as a stand-in for EventStoreDB, with the environment variables that compose.yaml sets. It
 * serves TLS on port 2113 and `/health/live` over HTTP/1.1, and accepts any user.
 */
import { readFileSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { createServer } from "node:tls";
import { startLogServer } from "../../../../deploy/local/eventstore/server.ts";

const { EVENTSTORE_DB = "/var/lib/eventstore" } = process.env;

const readFile = (name: string) => readFileSync(process.env[name] ?? "");

const log = await startLogServer({
  dir: EVENTSTORE_DB,
  host: "127.0.0.1",
  port: 0,
  printLine: (line) => process.stdout.write(`${line}\n`),
});
const server = createServer(
  {
    cert: readFile("EVENTSTORE_CERTIFICATE_FILE"),
    key: readFile("EVENTSTORE_CERTIFICATE_PRIVATE_KEY_FILE"),
    ALPNCallback: ({ protocols }) => (protocols.includes("http/1.1") ? "http/1.1" : "h2"),
  },
  (socket) => {
    if (socket.alpnProtocol === "http/1.1") return answerHealthCheck(socket);
    const logSocket = connect(log.port, "127.0.0.1");
    for (const end of [socket, logSocket]) end.on("error", () => undefined);
    socket.pipe(logSocket).pipe(socket);
    socket.on("close", () => logSocket.destroy());
    logSocket.on("close", () => socket.destroy());
  },
);
server.on("tlsClientError", () => undefined);
server.listen(2113, () => process.stdout.write("listening\n"));

for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => log.stop().then(() => process.exit(0)));
void log.failurePromise.then((error) => {
  process.stderr.write(`${error.message}\n`);
  process.exit(1);
});

function answerHealthCheck(socket: Socket): void {
  socket.on("error", () => undefined);
  socket.once("data", () => socket.end("HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"));
}
