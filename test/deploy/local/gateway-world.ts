/** Starts a gateway and the services behind it for a test. */
import { once } from "node:events";
import net, { type AddressInfo } from "node:net";
import { type GatewayOptions, startGateway } from "../../../deploy/local/gateway/gateway-server.ts";
import type { HttpServer } from "../../../shared/http/listen.ts";

/** Functions that close the open servers. After each test, closeAll() calls them even if the test failed. */
const closeFunctions: (() => unknown)[] = [];

/** Listens on a loopback port. Port 0 selects a free port. */
export async function listen<Server extends net.Server>(server: Server, port = 0): Promise<Server> {
  const sockets = new Set<net.Socket>();
  server.on("connection", (socket) => sockets.add(socket));
  closeFunctions.push(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}

export const getPort = (server: net.Server) => (server.address() as AddressInfo).port;
export const getOrigin = (server: net.Server) => `http://127.0.0.1:${getPort(server)}`;

/**
 * Starts a gateway that forwards all requests to one service. When the gateway closes, it aborts open requests
 * immediately.
 */
export async function startGatewayTo(service: net.Server, options: Partial<GatewayOptions> = {}): Promise<HttpServer> {
  const upstreamUrls = { command: getOrigin(service), queryApi: getOrigin(service), audit: getOrigin(service) };
  const log = () => undefined;
  const defaults = { host: "127.0.0.1", port: 0, upstreamUrls, log, drainTimeoutMs: 0 };
  const gateway = await startGateway({ ...defaults, ...options });
  let closePromise: Promise<void> | undefined;
  const close = () => (closePromise ??= gateway.close());
  closeFunctions.push(close);
  return { ...gateway, close };
}

/** Closes all open servers in reverse order, so that the gateway is closed before its service. */
export async function closeAll(): Promise<void> {
  for (const close of closeFunctions.splice(0).reverse()) await close();
}

/** Sends raw bytes and returns the complete response. */
export async function sendBytes(
  port: number,
  text: string | Buffer,
): Promise<{ status: number; headers: string; body: string }> {
  const socket = net.connect(port, "127.0.0.1");
  socket.write(text);
  let response = "";
  socket.setEncoding("utf8");
  for await (const chunk of socket) response += chunk;
  const [headers = "", ...body] = response.split("\r\n\r\n");
  return { status: Number(headers.split(" ")[1]), headers, body: body.join("\r\n\r\n") };
}
