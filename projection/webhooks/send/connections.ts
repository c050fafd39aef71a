import type { ClientRequest, RequestOptions } from "node:http";
import http from "node:http";
import https from "node:https";
import { isIP, type TcpNetConnectOpts } from "node:net";
import type { Duplex } from "node:stream";
import type { AttemptError } from "../../../shared/webhooks/attempt-error.ts";
import { isLoopback, type SafeDestination } from "../../../shared/webhooks/destination.ts";
import { type EgressProxy, EgressProxyError } from "./egress-proxy.ts";

/** Pools of connections to receivers. Idle connections stay open for later requests. */
export interface Connections {
  /**
   * Starts a POST request to one of the checked addresses. The request uses an idle connection of the same application,
   * origin and addresses, or opens a new one to the first address that accepts it. Requests never wait for each other. The
   * caller must end the request and limit its time.
   *
   * @param useNewConnection true to open a new connection for this request only
   */
  post(applicationId: string, destination: SafeDestination, headers: Headers, useNewConnection: boolean): ClientRequest;
  /** Returns the error code of an attempt whose time limit expired before it had a connection. */
  judgeTimeout(): AttemptError;
  /** Closes all connections, including connections in use. */
  close(): void;
}

type Headers = Readonly<Record<string, string>>;

/**
 * Maximum numbers of idle connections in one pool and in all pools. If the total is exceeded, the connection that has
 * been idle longest is closed. Connections in use need no limit here, because the sender limits concurrent attempts.
 */
const MAX_IDLE_SOCKETS_PER_POOL = 64;
const MAX_IDLE_SOCKETS = 512;

/**
 * Idle time after which a connection is closed. Shorter than five seconds, because many servers close idle connections
 * after that time. If the receiver's `Keep-Alive` header has a shorter timeout, the connection is closed one second
 * before that timeout.
 */
const IDLE_TIMEOUT_MS = 4_000;

/** Time to connect to one address before the next address is tried in parallel. RFC 8305 suggests 250 ms. */
const ADDRESS_TIMEOUT_MS = 1_000;

const MAX_HEADER_BYTES = 16_384;

/**
 * Creates pools of HTTP/1.1 connections. Each application, origin and address has a separate pool. TLS verifies that
 * the certificate matches the host name in the URL. Redirects are not followed, and response bodies are not
 * decompressed.
 *
 * @param egressProxy proxy for all destinations except loopback addresses
 */
export function createConnections(egressProxy?: EgressProxy): Connections {
  const idleSockets = new Set<Duplex>();
  const agents = { "http:": createAgent(http.Agent, idleSockets), "https:": createAgent(https.Agent, idleSockets) };
  const singleUseAgent = createAgent(https.Agent, idleSockets, false);
  return {
    post(applicationId, { url, addresses }, headers, useNewConnection) {
      const isSecure = url.protocol === "https:";
      const name = url.hostname.replace(/^\[|\]$/g, "");
      const options: PooledOptions = {
        method: "POST",
        host: name,
        // A second DNS lookup could return addresses that nobody has checked.
        lookup: (_, __, onResult) =>
          onResult(
            null,
            addresses.map((address) => ({ address, family: isIP(address) })),
          ),
        autoSelectFamily: true,
        autoSelectFamilyAttemptTimeout: ADDRESS_TIMEOUT_MS,
        addresses,
        port: url.port || (isSecure ? 443 : 80),
        servername: isIP(name) === 0 ? name : "",
        // `pathname` and `search` omit the `?` of an empty query.
        path: url.href.slice(url.origin.length),
        headers: { Host: url.host, ...headers },
        maxHeaderSize: MAX_HEADER_BYTES,
        agent: useNewConnection ? isSecure && singleUseAgent : agents[isSecure ? "https:" : "http:"],
        pool: `${applicationId} ${url.origin} ${addresses.join()}`,
        // Plain http is only allowed to loopback addresses.
        egressProxy: isSecure && !isLoopback(addresses[0]) ? egressProxy : undefined,
      };
      return (isSecure ? https : http).request(options);
    },
    judgeTimeout: () => egressProxy?.judgeTimeout() ?? "connection_timeout",
    close() {
      egressProxy?.close();
      for (const agent of [...Object.values(agents), singleUseAgent]) agent.destroy();
    },
  };
}

/** Opens a tunnel to the first address that the proxy can reach. */
async function openTunnel(proxy: EgressProxy, addresses: readonly string[], port: number): Promise<Duplex> {
  let failure: unknown;
  for (const address of addresses) {
    try {
      return await proxy.openTunnel(address, port);
    } catch (error) {
      if (error instanceof EgressProxyError) throw error;
      failure = error;
    }
  }
  throw failure;
}

interface PooledOptions
  extends https.RequestOptions,
    Pick<TcpNetConnectOpts, "autoSelectFamily" | "autoSelectFamilyAttemptTimeout"> {
  addresses: readonly string[];
  pool: string;
  egressProxy: EgressProxy | undefined;
}

/**
 * Creates an HTTP agent with one pool of connections for each value of the request option `pool`.
 *
 * @param idleSockets idle connections of all agents, longest idle first
 * @param keepAlive false to close each connection after its request
 */
function createAgent(BaseAgent: typeof http.Agent, idleSockets: Set<Duplex>, keepAlive = true): http.Agent {
  function removeIdleSocket(this: Duplex) {
    idleSockets.delete(this);
  }
  function destroySocket(this: Duplex) {
    this.destroy();
  }
  class PoolingAgent extends BaseAgent {
    override getName(options: RequestOptions & { pool?: string } = {}): string {
      return options.pool ?? "";
    }

    override createConnection(
      options: RequestOptions & Partial<PooledOptions>,
      onEnd: (error: Error | null, socket: Duplex) => void,
    ): Duplex | null | undefined {
      const { egressProxy, addresses = [], port } = options;
      if (!egressProxy) return super.createConnection(options, onEnd);
      openTunnel(egressProxy, addresses, Number(port)).then(
        (socket) => onEnd(null, super.createConnection({ ...options, socket } as RequestOptions) as Duplex),
        (error: Error) => onEnd(error, undefined as never),
      );
      return undefined;
    }

    override keepSocketAlive(socket: Duplex): boolean {
      // Despite its declared type, the base method returns false if the receiver will close the connection too soon.
      const isKept: unknown = super.keepSocketAlive(socket);
      if (isKept === false) return false;
      const [oldestSocket] = idleSockets.size < MAX_IDLE_SOCKETS ? [] : idleSockets;
      if (oldestSocket) idleSockets.delete(oldestSocket.destroy());
      idleSockets.add(socket);
      socket.once("close", removeIdleSocket);
      // Bytes without a request are the rest of a previous response, or an announcement that the connection will close.
      socket.once("data", destroySocket);
      return true;
    }

    override reuseSocket(socket: Duplex, request: ClientRequest): void {
      idleSockets.delete(socket);
      socket.off("close", removeIdleSocket);
      socket.off("data", destroySocket);
      super.reuseSocket(socket, request);
    }
  }
  return new PoolingAgent({ keepAlive, maxFreeSockets: MAX_IDLE_SOCKETS_PER_POOL, timeout: IDLE_TIMEOUT_MS });
}
