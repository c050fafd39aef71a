/**
 * A partner's HTTPS server on loopback with a self-signed certificate of `hooks.partner.example`. Closes the connection of
 * a request for `/once` that is not the first on its connection.
 */

import { readFileSync } from "node:fs";
import { createServer } from "node:https";
import type { TLSSocket } from "node:tls";
import { fileURLToPath } from "node:url";
import { listenOnLoopback } from "./loopback.ts";

export const PARTNER_HOST = "hooks.partner.example";

export interface PartnerTlsServer {
  port: number;
  /** Host names of the received requests: of the TLS connection, and in the Host header. */
  requests: { serverName: unknown; host: string | undefined }[];
  /** Number of accepted TCP connections. */
  getConnectionCount(): number;
  close(): Promise<void>;
}

/** Returns the path of a PEM file of the server: `cert` or `key`. */
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
