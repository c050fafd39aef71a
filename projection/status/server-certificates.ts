import { once } from "node:events";
import net from "node:net";
import tls from "node:tls";
import { parseConnectionString } from "../../shared/postgres/connection-string.ts";
import type { Config } from "../../shared/runtime/config.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { parseNatsUrl } from "../../shared/runtime/nats-url.ts";
import type { Metrics } from "./metrics.ts";

type ServerConfig = Config<"EVENTSTORE_URL" | "DATABASE_URL" | "NATS_URL">;

/**
 * Messages before the TLS handshake, by protocol: the client's request, and the response of a server that offers TLS.
 */
const protocols = {
  eventstore: { defaultPort: 2113, request: undefined, response: undefined },
  postgres: { defaultPort: 5432, request: Buffer.from([0, 0, 0, 8, 4, 210, 22, 47]), response: /^S/ },
  nats: { defaultPort: 4222, request: undefined, response: /"tls_(required|available)":true/ },
} as const;

type Protocol = keyof typeof protocols;

const INTERVAL_MS = 10 * 60_000;

const TIMEOUT_MS = 10_000;

/**
 * Reads the certificates of all servers every ten minutes, and sets the metric of their expiry times. A server that
 * does not respond keeps its last value. Certificates are not verified, so that expired certificates are reported, too.
 *
 * @returns a function that stops the reading
 */
export function watchServerCertificates(config: ServerConfig, metrics: Metrics, logger: Logger): () => void {
  const measure = async ([protocol, { hostname, port }]: [Protocol, URL]) => {
    const address = { host: hostname.replace(/^\[|\]$/g, ""), port: Number(port || protocols[protocol].defaultPort) };
    const server = `${hostname}:${address.port}`;
    await readCertificateEnd(protocol, address).then(
      (end) => metrics.certificateEnd.set({ server }, end),
      (error) => logger.warn({ error, server }, "The certificate of a server cannot be read. This will be retried."),
    );
  };
  const measureAll = () => void listServers(config).map(measure);
  measureAll();
  const timer = setInterval(measureAll, INTERVAL_MS);
  return () => clearInterval(timer);
}

function listServers({ EVENTSTORE_URL, DATABASE_URL, NATS_URL }: ServerConfig): [Protocol, URL][] {
  const [, eventStoreHosts = ""] = /^(?!.*tls=false).*:\/\/(?:[^/?]*@)?([^/?]*)/i.exec(EVENTSTORE_URL) ?? [];
  const servers: [Protocol, string][] = [
    ...eventStoreHosts.split(",").map((host): [Protocol, string] => ["eventstore", host]),
    ...parseConnectionString(DATABASE_URL).hosts.map((host): [Protocol, string] => ["postgres", host]),
    ...(parseNatsUrl(NATS_URL) ?? []).map(({ host }): [Protocol, string] => ["nats", host]),
  ];
  // The folder of a socket, which contains encoded characters, is not a host.
  return servers.filter(([, host]) => /^[^%]+$/.test(host)).map(([name, host]) => [name, new URL(`tcp://${host}`)]);
}

/**
 * Reads the certificate of a server.
 *
 * @returns its expiry time in Unix seconds; 0 if the server offers no TLS
 * @throws if the server does not respond in time
 */
async function readCertificateEnd(protocol: Protocol, address: { host: string; port: number }): Promise<number> {
  const { request, response } = protocols[protocol];
  const signal = AbortSignal.timeout(TIMEOUT_MS);
  const socket = net.connect(address).on("error", () => undefined);
  try {
    if (request) socket.write(request);
    if (response && !response.test(String((await once(socket, "data", { signal }))[0]))) return 0;
    const servername = net.isIP(address.host) ? "" : address.host;
    const secureSocket = tls.connect({ socket, servername, rejectUnauthorized: false }).on("error", () => undefined);
    await once(secureSocket, "secureConnect", { signal });
    return Date.parse(secureSocket.getPeerCertificate().valid_to) / 1_000;
  } finally {
    socket.destroy();
  }
}
