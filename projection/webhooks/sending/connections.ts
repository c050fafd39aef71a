import http, { type ClientRequest, type RequestOptions } from "node:http";
import https from "node:https";
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import type { SafeDestination } from "../../../shared/webhooks/destination.ts";

/** Connections to receivers, kept open between deliveries. */
export interface Connections {
  /**
   * Starts a POST to the checked address. The request uses a kept connection of the same application, origin and
   * address, or opens one at once: no request waits for another. The caller ends the request and limits its time.
   *
   * @param fresh true for a new connection that serves this request only
   */
  post(applicationId: string, destination: SafeDestination, headers: Headers, fresh: boolean): ClientRequest;
  /** Closes all connections, used or idle. */
  close(): void;
}

type Headers = Readonly<Record<string, string>>;

/**
 * Most idle connections of one pool and of all pools. Beyond the total, the connection that was idle longest is closed. The
 * sender limits the connections in use, because it limits the attempts under way.
 */
const MAX_IDLE_PER_POOL = 64;
const MAX_IDLE = 512;

/**
 * Idle time after which a connection is closed. It is closed earlier, one second before the timeout in the receiver's
 * `Keep-Alive` header. Common servers wait five seconds. Milliseconds.
 */
const IDLE_TIMEOUT_MS = 4_000;

const MAX_HEADER_BYTES = 16_384;

/**
 * Creates pools of HTTP/1.1 connections by application, origin and address. TLS verifies the certificate for the name
 * in the URL. Redirects are not followed and bodies are not decompressed.
 */
export function createConnections(): Connections {
  const idle = new Set<Duplex>();
  const agents = { "http:": createAgent(http.Agent, idle), "https:": createAgent(https.Agent, idle) };
  return {
    post(applicationId, { url, address }, headers, fresh) {
      const secure = url.protocol === "https:";
      const name = url.hostname.replace(/^\[|\]$/g, "");
      const options: PooledOptions = {
        method: "POST",
        // The connection goes to this address. No name is looked up here.
        host: address,
        port: url.port || (secure ? 443 : 80),
        servername: isIP(name) === 0 ? name : "",
        path: url.pathname + url.search,
        headers: { Host: url.host, ...headers },
        maxHeaderSize: MAX_HEADER_BYTES,
        agent: fresh ? false : agents[secure ? "https:" : "http:"],
        pool: `${applicationId} ${url.origin} ${address}`,
      };
      return (secure ? https : http).request(options);
    },
    close() {
      for (const agent of Object.values(agents)) agent.destroy();
    },
  };
}

interface PooledOptions extends https.RequestOptions {
  pool: string;
}

/** @param idle the idle connections of all agents, longest idle first */
function createAgent(Base: typeof http.Agent, idle: Set<Duplex>): http.Agent {
  function forget(this: Duplex) {
    idle.delete(this);
  }
  class PoolingAgent extends Base {
    override getName(options: RequestOptions & { pool?: string } = {}): string {
      return options.pool ?? "";
    }

    override keepSocketAlive(socket: Duplex): boolean {
      // The declared type says void; false means that the receiver closes the connection too soon.
      const kept: unknown = super.keepSocketAlive(socket);
      if (kept === false) return false;
      const [oldest] = idle.size < MAX_IDLE ? [] : idle;
      if (oldest) idle.delete(oldest.destroy());
      idle.add(socket);
      socket.once("close", forget);
      return true;
    }

    override reuseSocket(socket: Duplex, request: ClientRequest): void {
      idle.delete(socket);
      socket.off("close", forget);
      super.reuseSocket(socket, request);
    }
  }
  return new PoolingAgent({ keepAlive: true, maxFreeSockets: MAX_IDLE_PER_POOL, timeout: IDLE_TIMEOUT_MS });
}
