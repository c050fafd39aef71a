import { X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { expect } from "chai";
import { pino } from "pino";
import { createMetrics } from "../../../projection/status/metrics.ts";
import { watchServerCertificates } from "../../../projection/status/server-certificates.ts";
import { eventually } from "../../support/eventually.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { parseMetrics } from "../../support/metrics.ts";
import { getTlsFile, startNatsServer, TLS_BLOCK } from "../../support/nats-server.ts";
import { startPostgresPair } from "../../support/postgres-pair.ts";
import { getTestServers } from "../../support/stack.ts";
import { startTlsProxy } from "../../support/tls-proxy.ts";

const readEnd = (name: string) => Date.parse(new X509Certificate(readFileSync(getTlsFile(name))).validTo) / 1_000;

describe("the metric of the servers' certificates", () => {
  const logger = pino({ enabled: false });

  /** Returns the expiry time of each server's certificate. @param serverCount number of servers to wait for */
  async function measure(config: Parameters<typeof watchServerCertificates>[0], serverCount: number) {
    const metrics = createMetrics();
    const stop = watchServerCertificates(config, metrics, logger);
    const samples = await eventually("the ends of all certificates", async () => {
      const families = parseMetrics(await metrics.registry.metrics());
      const found = families.get("server_certificate_expiry_timestamp_seconds")?.samples ?? [];
      return found.length >= serverCount && found;
    });
    stop();
    return Object.fromEntries(samples.map(({ labels, value }) => [labels.server, value]));
  }

  it("it contains the end of the certificate of each server, also of those that no connection uses", async () => {
    const log = await startTlsProxy(1);
    const postgres = await startPostgresPair();
    const nats = await startNatsServer(TLS_BLOCK);
    const config = {
      EVENTSTORE_URL: `esdb://admin:p:w@localhost:${log.port},127.0.0.1:${log.port}?tlsCAFile=ca.crt`,
      DATABASE_URL: postgres.urls.projection,
      NATS_URL: `tls://${nats.host}`,
    };
    const ends = await measure(config, 5);
    const { primary, standby } = postgres.ports;
    expect(ends).to.deep.equal({
      [`localhost:${log.port}`]: readEnd("server.cert"),
      [`127.0.0.1:${log.port}`]: readEnd("server.cert"),
      [`localhost:${primary}`]: readEnd("localhost.cert"),
      [`localhost:${standby}`]: readEnd("localhost.cert"),
      [nats.host]: readEnd("server.cert"),
    });
  });

  it("a server without TLS has the value 0, and a server that does not respond has no value", async () => {
    const { eventstoreUrl, adminDatabaseUrl: databaseUrl, natsUrl } = await getTestServers();
    const { host } = await listenOnLoopback(createServer());
    const config = { EVENTSTORE_URL: eventstoreUrl, DATABASE_URL: databaseUrl, NATS_URL: `${natsUrl},tls://${host}` };
    const ends = await measure(config, 2);
    const toHost = (url: string) => new URL(url.replace(/^\w+:/, "http:")).host;
    expect(ends).to.deep.equal({ [toHost(databaseUrl)]: 0, [toHost(natsUrl)]: 0 });
  });
});
