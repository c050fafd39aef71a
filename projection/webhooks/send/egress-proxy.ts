import type { ClientRequest, IncomingMessage } from "node:http";
import http from "node:http";
import https from "node:https";
import { isIP } from "node:net";
import type { Duplex } from "node:stream";
import type { Logger } from "../../../shared/runtime/logger.ts";
import type { AttemptError } from "../../../shared/webhooks/attempt-error.ts";

/** The egress proxy is unavailable, or refused to open a tunnel. The request was not sent. */
export class EgressProxyError extends Error {
  override readonly name = "EgressProxyError";
}

class AbortedError extends Error {
  override readonly name = "AbortedError";
}

interface EgressProxyOptions {
  /** URL of an HTTP proxy that supports CONNECT: `http://` or `https://`, optionally with user and password. */
  url: string;
  /** Time limit of an attempt for DNS lookup, connection and TLS handshake together. */
  connectTimeoutMs: number;
  logger: Logger;
}

/**
 * Time after the last opened tunnel during which the proxy counts as working. In this time, a timeout or a status 5xx
 * counts as a failure of the receiver. After it, they count as a failure of the proxy.
 */
const PROOF_DURATION_MS = 60_000;

const LOG_INTERVAL_MS = 60_000;

/** Minimum status with which proxies report that they cannot reach the receiver: tinyproxy with 500, Squid with 503. */
const MIN_UNREACHABLE_STATUS = 500;

const GATEWAY_TIMEOUT_STATUS = 504;

/**
 * HTTP proxy through which connections to receivers are opened. The proxy gets the checked address instead of the host
 * name, so it does no DNS lookup, and no host name can lead it to a private address.
 */
export class EgressProxy {
  readonly #options: EgressProxyOptions;
  readonly #requestOptions: https.RequestOptions;
  /** Requests for tunnels that are not established yet. */
  readonly #pendingRequests = new Set<ClientRequest>();
  #lastTunnelAt = Number.NEGATIVE_INFINITY;
  #lastLogAt = Number.NEGATIVE_INFINITY;

  constructor(options: EgressProxyOptions) {
    this.#options = options;
    this.#requestOptions = toRequestOptions(new URL(options.url));
  }

  /**
   * Opens a tunnel to an address.
   *
   * @throws {EgressProxyError} if the proxy failed
   * @throws an error if the proxy works, but cannot reach the address
   */
  async openTunnel(address: string, port: number): Promise<Duplex> {
    try {
      const { response, socket } = await this.#connect(`${isIP(address) === 6 ? `[${address}]` : address}:${port}`);
      const error = this.#judge(response);
      if (error) {
        socket.destroy();
        throw error;
      }
      this.#lastTunnelAt = performance.now();
      return socket;
    } catch (error) {
      if (error instanceof EgressProxyError) this.#logFailure(error);
      throw error;
    }
  }

  /** Returns the error code of an attempt whose time limit expired before its tunnel was established. */
  judgeTimeout(): AttemptError {
    if (this.#isProven()) return "connection_timeout";
    this.#logFailure(new EgressProxyError("The egress proxy did not open a connection in time."));
    return "egress_proxy_failed";
  }

  /** Ends all requests for tunnels. Established tunnels stay open. */
  close(): void {
    for (const request of this.#pendingRequests) request.destroy(new AbortedError());
  }

  #connect(authority: string): Promise<{ response: IncomingMessage; socket: Duplex }> {
    const { connectTimeoutMs } = this.#options;
    const { protocol, headers } = this.#requestOptions;
    const request = (protocol === "https:" ? https : http).request({
      ...this.#requestOptions,
      path: authority,
      headers: { ...headers, Host: authority },
    });
    this.#pendingRequests.add(request);
    // The attempt's own time limit expires later, and does not show whether the proxy is unavailable.
    const unavailableError = new EgressProxyError("The egress proxy did not accept a connection in time.");
    let timer = setTimeout(() => request.destroy(unavailableError), connectTimeoutMs / 2);
    request.once("socket", (socket) => {
      socket.once("encrypted" in socket ? "secureConnect" : "connect", () => {
        clearTimeout(timer);
        // The attempt ends earlier, unless this process was paused. This limit closes the connection to the proxy.
        const timeoutError = Object.assign(new AbortedError(), { code: "ETIMEDOUT" });
        timer = setTimeout(() => request.destroy(timeoutError), connectTimeoutMs);
      });
    });
    return new Promise<{ response: IncomingMessage; socket: Duplex }>((resolve, reject) => {
      request.once("connect", (response, socket) => {
        // A lost tunnel closes the TLS connection to the receiver, which reports the error.
        socket.on("error", () => undefined);
        resolve({ response, socket });
      });
      request.on("error", (error) => reject(toProxyError(error)));
      request.end();
    }).finally(() => {
      clearTimeout(timer);
      this.#pendingRequests.delete(request);
    });
  }

  #judge({ statusCode = 0 }: IncomingMessage): Error | undefined {
    if (statusCode >= 200 && statusCode <= 299) return undefined;
    const message = `The egress proxy refused a connection with status ${statusCode}.`;
    if (statusCode < MIN_UNREACHABLE_STATUS || !this.#isProven()) return new EgressProxyError(message);
    return Object.assign(new Error(message), statusCode === GATEWAY_TIMEOUT_STATUS ? { code: "ETIMEDOUT" } : {});
  }

  #isProven(): boolean {
    return performance.now() - this.#lastTunnelAt < PROOF_DURATION_MS;
  }

  #logFailure(error: EgressProxyError): void {
    if (performance.now() - this.#lastLogAt < LOG_INTERVAL_MS) return;
    this.#lastLogAt = performance.now();
    this.#options.logger.error(
      { error },
      "The egress proxy failed. Webhooks are retried. Check WEBHOOK_EGRESS_PROXY_URL.",
    );
  }
}

function toRequestOptions(url: URL): https.RequestOptions {
  const host = url.hostname.replace(/^\[|\]$/g, "");
  const [user, password] = [url.username, url.password].map(decodeURIComponent);
  const credentials = Buffer.from(`${user}:${password}`).toString("base64");
  return {
    method: "CONNECT",
    protocol: url.protocol,
    host,
    agent: false,
    port: url.port || (url.protocol === "https:" ? 443 : 80),
    // Without this name, Node would verify the proxy's certificate with the Host header.
    servername: isIP(host) === 0 ? host : "",
    headers: url.username === "" && url.password === "" ? {} : { "Proxy-Authorization": `Basic ${credentials}` },
  };
}

function toProxyError(error: Error): Error {
  if (error instanceof EgressProxyError || error instanceof AbortedError) return error;
  return new EgressProxyError("The egress proxy is unavailable.", { cause: error });
}
