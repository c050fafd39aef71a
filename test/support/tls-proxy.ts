import fs from "node:fs";
import { connect } from "node:net";
import { createServer } from "node:tls";
import { listenOnLoopback } from "./loopback.ts";
import { getTlsFile } from "./nats-server.ts";

/** A TLS proxy on loopback that requires client certificates and forwards connections to a server without TLS. */
export interface TlsProxy {
  port: number;
  close(): Promise<void>;
}

/** @param targetPort port of the server on loopback */
export async function startTlsProxy(targetPort: number): Promise<TlsProxy> {
  const proxy = createServer({
    cert: fs.readFileSync(getTlsFile("server.cert")),
    key: fs.readFileSync(getTlsFile("server.key")),
    ca: fs.readFileSync(getTlsFile("servers-ca.cert")),
    requestCert: true,
    rejectUnauthorized: true,
    ALPNProtocols: ["h2"],
  });
  proxy.on("secureConnection", (clientSocket) => {
    const serverSocket = connect(targetPort, "127.0.0.1");
    for (const socket of [clientSocket, serverSocket]) socket.on("error", () => undefined);
    clientSocket.pipe(serverSocket).pipe(clientSocket);
    clientSocket.on("close", () => serverSocket.destroy());
    serverSocket.on("close", () => clientSocket.destroy());
  });
  return listenOnLoopback(proxy);
}
