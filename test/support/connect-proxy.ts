/**
 * An HTTP proxy on loopback that supports only CONNECT. Its tunnels lead to one port on loopback, so that public
 * addresses can be tested.
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
  /** Sets the response to all later requests: a status, or `hold` for none. Initially, the proxy opens tunnels. */
  setReaction(reaction: "open" | "hold" | number): void;
  /** Opens the tunnels of all requests without a response. */
  release(): void;
  /** Returns the number of connections to the proxy that are open. */
  countConnections(): number;
  close(): Promise<void>;
}

/**
 * @param targetPort port on loopback that all tunnels lead to
 * @param options.port port to listen on; 0, the default, selects a free port
 * @param options.isSecure true to accept only TLS connections
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
