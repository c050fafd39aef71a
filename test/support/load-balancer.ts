/**
 * A load balancer for several processes of each service, in place of a production ingress. It sends requests only to
 * ready processes, and never repeats a request.
 */
import http from "node:http";
import { pipeline } from "node:stream";
import { findUpstream, type Upstream } from "../../deploy/local/gateway/gateway-server.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import { eventually } from "./eventually.ts";
import { listenOnLoopback } from "./loopback.ts";
import { releaseLater } from "./resources.ts";

export interface LoadBalancer {
  url: string;
  port: number;
  /** Adds a process, and waits until it is ready. */
  add(service: Upstream, url: string): Promise<void>;
  /** Waits until a process gets no more requests and has answered all former ones. */
  awaitRemoval(url: string): Promise<void>;
  /** Descriptions of requests that could not be forwarded. */
  failures: string[];
  close(): Promise<void>;
}

/** Pause between two probes of a process. Milliseconds. */
const PROBE_INTERVAL_MS = 40;

/** Number of successive failed probes after which a process gets no more requests. */
const FAILURE_THRESHOLD = 3;

/** Time limit for idle connections, longer than any pause of a client. Milliseconds. */
const KEEP_ALIVE_MS = 60_000;

interface Backend {
  service: Upstream;
  origin: URL;
  isReady: boolean;
  openRequestCount: number;
}

export async function startLoadBalancer(): Promise<LoadBalancer> {
  const agent = new http.Agent({ keepAlive: true });
  const backends: Backend[] = [];
  const failures: string[] = [];
  let requestCount = 0;
  // On a busy machine, a client may use a connection at the moment at which Node's five seconds end.
  const server = http.createServer({ keepAliveTimeout: KEEP_ALIVE_MS }, (request, response) => {
    const { method = "GET", url = "" } = request;
    const service = findUpstream(method, url);
    const readyBackends = backends.filter((backend) => backend.service === service && backend.isReady);
    requestCount += 1;
    const backend = readyBackends[requestCount % readyBackends.length];
    const fail = (reason: string) => {
      failures.push(`${method} ${url}: ${reason}`);
      response.writeHead(502).end();
    };
    if (!backend) return fail("no process is ready");
    backend.openRequestCount += 1;
    response.once("close", () => (backend.openRequestCount -= 1));
    const headers = { ...request.headers, "x-forwarded-for": "127.0.0.1" };
    const upstreamRequest = http.request(new URL(url, backend.origin), { method, headers, agent });
    upstreamRequest.on("response", (upstreamResponse) => {
      const { connection: _, ...upstreamHeaders } = upstreamResponse.headers;
      response.writeHead(upstreamResponse.statusCode ?? 502, upstreamHeaders);
      pipeline(upstreamResponse, response, (error) => error && failures.push(`${method} ${url}: ${error.message}`));
    });
    upstreamRequest.on("error", (error) => response.headersSent || fail(error.message));
    request.pipe(upstreamRequest);
  });
  const stopController = new AbortController();
  const { signal } = stopController;
  /** Probes a process until it ends. */
  const probe = async (backend: Backend) => {
    let failureCount = 0;
    while (!signal.aborted) {
      const response = await fetch(new URL("/health/ready", backend.origin), { signal }).catch(() => undefined);
      if (!response && failureCount >= FAILURE_THRESHOLD) return void backends.splice(backends.indexOf(backend), 1);
      await response?.body?.cancel();
      failureCount = response?.ok ? 0 : failureCount + 1;
      if (response?.ok) backend.isReady = true;
      else if (failureCount >= FAILURE_THRESHOLD) backend.isReady = false;
      await pause(PROBE_INTERVAL_MS, signal);
    }
  };
  const { host, port, close } = await listenOnLoopback(server);
  return {
    ...{ url: `http://${host}`, port, failures },
    async add(service, url) {
      const backend = { service, origin: new URL(url), isReady: false, openRequestCount: 0 };
      backends.push(backend);
      probe(backend);
      await eventually(`${service} is ready`, () => backend.isReady);
    },
    async awaitRemoval(url) {
      const backend = backends.find(({ origin }) => origin.href === new URL(url).href);
      await eventually(`no requests to ${url}`, () => !backend?.isReady && !backend?.openRequestCount);
    },
    close: releaseLater(async () => {
      stopController.abort();
      agent.destroy();
      await close();
    }),
  };
}
