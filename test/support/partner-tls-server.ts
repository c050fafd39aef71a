/**
 * A partner's HTTPS server on loopback with a self-signed certificate for `hooks.partner.example`. If a request to
 * `/once` is not the first on its connection, the server closes the connection.
 */

import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import { listenOnLoopback } from "./loopback.ts";

export const PARTNER_HOST = "hooks.partner.example";

export interface PartnerTlsServer {
  port: number;
  /** Host names in the received requests: in the TLS handshake and in the Host header. */
  requests: { serverName: unknown; host: string | undefined }[];
  getConnectionCount(): number;
  close(): Promise<void>;
}

/** Returns the path of the server's certificate or key (PEM). */
export const getPartnerPemPath = (kind: "cert" | "key") =>
  fileURLToPath(new URL(`tls/${PARTNER_HOST}.${kind}.pem`, import.meta.url));

export async function startPartnerTlsServer(): Promise<PartnerTlsServer> {
  const requests: PartnerTlsServer["requests"] = [];
  const usedSockets = new WeakSet<object>();
  let connectionCount = 0;
  const [cert, key] = [readFileSync(getPartnerPemPath("cert")), readFileSync(getPartnerPemPath("key"))];
  const server = createServer({ cert, key }, ({ socket, headers, url }, response) => {
    if (url === "/once" && usedSockets.has(socket)) {
      socket.destroy();
      return;
    }
    usedSockets.add(socket);
    const { servername: serverName } = socket as TLSSocket & { servername?: unknown };
    requests.push({ serverName, host: headers.host });
    response.end("ok");
  });
  server.on("connection", () => {
    connectionCount += 1;
  });
  const { port, close } = await listenOnLoopback(server);
  return { port, requests, getConnectionCount: () => connectionCount, close };
}
