/**
 * An HTTP proxy on loopback that supports only CONNECT. All tunnels lead to one loopback port, so that tests can use
 * public addresses.
 */

import { readFileSync } from "node:fs";
import { createServer, type IncomingMessage } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { connect } from "node:net";
import type { Duplex } from "node:stream";
import { listenOnLoopback } from "./loopback.ts";

export interface ConnectProxy {
  port: number;
  /** Received CONNECT requests: target, and value of the header Proxy-Authorization. */
  requests: { target: string; credentials: string | undefined }[];
  /** Sets the reaction to later requests: open a tunnel (initially), hold the response, or respond with a status. */
  setReaction(reaction: "open" | "hold" | number): void;
  /** Opens the tunnels of all requests on hold. */
  release(): void;
  /** Returns the number of open connections to the proxy. */
  countConnections(): number;
  close(): Promise<void>;
}

/**
 * @param targetPort loopback port of all tunnels
 * @param options.port port to listen on; default: a free port
 * @param options.isSecure if true, accepts only TLS connections
 */
export async function startConnectProxy(
  targetPort: number,
  options: { port?: number; isSecure?: boolean } = {},
): Promise<ConnectProxy> {
  const requests: ConnectProxy["requests"] = [];
  const heldSockets: Duplex[] = [];
  let reaction: Parameters<ConnectProxy["setReaction"]>[0] = "open";
  const readPem = (kind: string) => readFileSync(new URL(`tls/localhost.${kind}.pem`, import.meta.url));
  const server = options.isSecure ? createSecureServer({ cert: readPem("cert"), key: readPem("key") }) : createServer();
  server.on("connect", ({ url = "", headers }: IncomingMessage, socket: Duplex) => {
    requests.push({ target: url, credentials: headers["proxy-authorization"] });
    socket.on("error", () => undefined);
    if (reaction === "open") open(socket);
    else if (reaction !== "hold") socket.end(`HTTP/1.1 ${reaction} Test\r\nContent-Length: 0\r\n\r\n`);
    else heldSockets.push(socket.on("end", () => socket.destroy()).resume());
  });
  const open = (socket: Duplex) => {
    const targetSocket = connect(targetPort, "127.0.0.1", () => socket.write("HTTP/1.1 200 Connected\r\n\r\n"));
    targetSocket.on("error", () => undefined).on("close", () => socket.destroy());
    socket.on("close", () => targetSocket.destroy());
    socket.pipe(targetSocket).pipe(socket);
  };
  const { port, countConnections, close } = await listenOnLoopback(server, options.port);
  return {
    port,
    requests,
    setReaction(newReaction) {
      reaction = newReaction;
    },
    release() {
      for (const socket of heldSockets.splice(0)) open(socket);
    },
    countConnections,
    close,
  };
}
