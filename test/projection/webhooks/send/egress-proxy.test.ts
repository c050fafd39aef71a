import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect } from "chai";
import { attemptDelivery } from "../../../../projection/webhooks/send/attempt-delivery.ts";
import type { ClaimedDelivery } from "../../../../projection/webhooks/send/claim.ts";
import { type Connections, createConnections } from "../../../../projection/webhooks/send/connections.ts";
import { EgressProxy } from "../../../../projection/webhooks/send/egress-proxy.ts";
import { createLogger } from "../../../../shared/runtime/logger.ts";
import { captureLogs } from "../../../support/captured-logs.ts";
import { type ConnectProxy, startConnectProxy } from "../../../support/connect-proxy.ts";
import { eventually } from "../../../support/eventually.ts";
import {
  getPartnerPemPath,
  PARTNER_HOST,
  type PartnerTlsServer,
  startPartnerTlsServer,
} from "../../../support/partner-tls-server.ts";
import { startReceiver } from "../../../support/receiver.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { startUnresponsiveServer } from "../../../support/unresponsive-server.ts";
import { runTrustedAttempts } from "../run-trusted-attempts.ts";

const PUBLIC_ADDRESS = "93.184.216.34";
const PUBLIC_IPV6_ADDRESS = "2606:2800:220:1:248:1893:25c8:1946";
const URL_TEXT = `https://${PARTNER_HOST}/in`;

describe("the egress proxy", () => {
  let partnerServer: PartnerTlsServer;
  let proxy: ConnectProxy;
  let connections: Connections;
  let failureCount: number;

  beforeEach(async () => {
    partnerServer = await startPartnerTlsServer();
    proxy = await startConnectProxy(partnerServer.port);
    failureCount = 0;
    connections = connectThrough(`http://127.0.0.1:${proxy.port}`);
  });
  afterEach(async () => {
    connections.close();
  });

  const connectThrough = (url: string, { connectTimeoutMs = 10_000, level = "silent" } = {}) =>
    createConnections(new EgressProxy({ url, connectTimeoutMs, logger: createLogger("test", level) }));
  const attempt = (options: { url?: string; address?: string; connectTimeoutMs?: number; isLocal?: boolean } = {}) => {
    const { url = URL_TEXT, address = PUBLIC_ADDRESS, connectTimeoutMs = 10_000, isLocal = false } = options;
    const delivery = {
      url,
      applicationId: "a",
      deliveryId: "d",
      body: "{}",
      bodyFormat: "standard",
      encryptedSecrets: [""],
    };
    return attemptDelivery(
      { ...delivery, encryptedHeaders: [], startedAt: 0 } as unknown as ClaimedDelivery,
      {
        connections,
        allowsLoopback: isLocal,
        connectTimeoutMs,
        timeoutMs: 10_000,
        brand: "SERVICE",
        lookup: async () => [address],
        secretReader: { open: async () => "" },
        logger: createLogger("test", "silent"),
        onEgressProxyFailure() {
          failureCount += 1;
        },
      },
      new AbortController().signal,
    );
  };
  const getError = async (options?: Parameters<typeof attempt>[0]) => (await attempt(options))?.error;
  const listTargets = () => proxy.requests.map(({ target }) => target);

  it("attempts through http and https proxies verify the partner's certificate and reuse tunnels", async () => {
    const secureProxy = await startConnectProxy(partnerServer.port, { isSecure: true });
    const certFile = join(makeTestRoot(), "authorities.pem");
    const testCa = readFileSync(new URL("../../../support/tls/test-ca.cert.pem", import.meta.url), "utf8");
    writeFileSync(certFile, testCa + readFileSync(getPartnerPemPath("cert"), "utf8"));
    const [proxyUrl, secureProxyUrl] = [`http://127.0.0.1:${proxy.port}`, `https://localhost:${secureProxy.port}`];
    const attempts = [
      { url: URL_TEXT, proxyUrl },
      { url: URL_TEXT, proxyUrl: secureProxyUrl },
      { url: `https://${PARTNER_HOST}/once`, proxyUrl },
      { url: "https://hooks.other.example/in", proxyUrl },
      // The proxy's certificate is not valid for its address.
      { url: URL_TEXT, proxyUrl: secureProxyUrl.replace("localhost", "127.0.0.1") },
    ];
    const outcomes = await runTrustedAttempts(attempts, certFile);
    expect(outcomes).to.deep.equal([
      ...[200, 200, 200, 200, 200, 200, "tls_failed", "tls_failed"],
      ...["egress_proxy_failed", "egress_proxy_failed"],
    ]);
    expect(partnerServer.requests.map(({ serverName, host }) => [serverName, host])).to.deep.equal(
      Array.from({ length: 6 }, () => [PARTNER_HOST, PARTNER_HOST]),
    );
    const target = `${PUBLIC_ADDRESS}:443`;
    // One tunnel for the first two attempts, and one for each of the next four.
    expect(listTargets()).to.deep.equal(Array.from({ length: 5 }, () => target));
    expect(secureProxy.requests.map((request) => request.target)).to.deep.equal([target]);
  });

  it("the proxy gets the checked address and the credentials, and no host name", async () => {
    connections = connectThrough(`http://clinic:p%40ss%3Aword@localhost:${proxy.port}`);
    await attempt({ url: `https://${PARTNER_HOST}:8443/in` });
    await attempt({ address: PUBLIC_IPV6_ADDRESS });
    const credentials = `Basic ${Buffer.from("clinic:p@ss:word").toString("base64")}`;
    expect(proxy.requests).to.deep.equal([
      { target: `${PUBLIC_ADDRESS}:8443`, credentials },
      { target: `[${PUBLIC_IPV6_ADDRESS}]:443`, credentials },
    ]);
    connections.close();
    await eventually("the end of all connections", () => proxy.countConnections() === 0);
  });

  it("an attempt at a host name with a private address is refused without a request to the proxy", async () => {
    await attempt();
    for (const address of ["10.0.0.1", "127.0.0.1", "::1"])
      expect(await getError({ address })).to.equal("address_not_public");
    expect(listTargets()).to.deep.equal([`${PUBLIC_ADDRESS}:443`]);
  });

  it("an attempt at a loopback address does not use the proxy", async () => {
    const receiver = await startReceiver();
    expect(await attempt({ url: receiver.url, isLocal: true })).to.include({ statusCode: 200 });
    await attempt({ url: `https://localhost:${partnerServer.port}`, isLocal: true });
    await receiver.close();
    expect(partnerServer.getConnectionCount()).to.equal(1);
    expect(listTargets()).to.deep.equal([]);
  });

  it("each other response of the proxy fails the attempt with egress_proxy_failed", async () => {
    const statuses = [302, 400, 403, 407, 500, 502, 503, 504];
    for (const status of statuses) {
      proxy.setReaction(status);
      expect(await getError(), String(status)).to.equal("egress_proxy_failed");
    }
    expect([failureCount, partnerServer.getConnectionCount()]).to.deep.equal([statuses.length, 0]);
  });

  it("after a tunnel was opened, receivers that the proxy cannot reach fail with their own error", async () => {
    expect(await getError()).to.equal("tls_failed");
    const errors = [];
    for (const status of [500, 503, 504, 407]) {
      proxy.setReaction(status);
      errors.push(await getError());
    }
    proxy.setReaction("hold");
    errors.push(await getError({ connectTimeoutMs: 200 }));
    expect(errors).to.deep.equal([
      ...["connection_failed", "connection_failed", "connection_timeout"],
      ...["egress_proxy_failed", "connection_timeout"],
    ]);
    expect(failureCount).to.equal(1);
  });

  it("an unavailable proxy fails the attempt with egress_proxy_failed", async () => {
    await attempt();
    proxy.setReaction("hold");
    expect(await getError({ connectTimeoutMs: 100 })).to.equal("connection_timeout");
    // The proxy also closes the connection of the attempt that has ended. This is no failure of another attempt.
    await proxy.close();
    expect(await getError()).to.equal("egress_proxy_failed");
    proxy = await startConnectProxy(partnerServer.port, { port: proxy.port });
    expect(await getError()).to.equal("tls_failed");
    expect(failureCount).to.equal(1);
  });

  it("a proxy that accepts no connection fails the attempt with egress_proxy_failed", async () => {
    const unresponsiveServer = await startUnresponsiveServer();
    connections = connectThrough(`http://127.0.0.1:${unresponsiveServer.port}`, { connectTimeoutMs: 400 });
    expect(await getError()).to.equal("egress_proxy_failed");
    expect(failureCount).to.equal(1);
  });

  it("if the proxy does not respond, the attempt fails and its connection to the proxy is closed", async () => {
    connections = connectThrough(`http://127.0.0.1:${proxy.port}`, { connectTimeoutMs: 1_000 });
    proxy.setReaction("hold");
    expect(await getError({ connectTimeoutMs: 100 })).to.equal("egress_proxy_failed");
    await eventually("the end of the connection", () => proxy.countConnections() === 0);
    expect([failureCount, proxy.requests.length]).to.deep.equal([1, 1]);
  });

  it("if the proxy does not respond, a pause of the sender's process does not change the error", async () => {
    connections = connectThrough(`http://127.0.0.1:${proxy.port}`, { connectTimeoutMs: 1_000 });
    proxy.setReaction("hold");
    const errorPromise = getError({ connectTimeoutMs: 1_000 });
    await eventually("the request", () => proxy.requests.length === 1);
    // Pauses this thread until both the attempt's and the proxy's time limit have expired.
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_100);
    expect(await errorPromise).to.equal("egress_proxy_failed");
  });

  it("a tunnel that the proxy opens after the attempt has ended is closed", async () => {
    proxy.setReaction("hold");
    const attemptPromise = getError({ connectTimeoutMs: 1_000 });
    await eventually("the request", () => proxy.requests.length === 1);
    expect(await attemptPromise).to.equal("egress_proxy_failed");
    proxy.release();
    await eventually("the tunnel", () => partnerServer.getConnectionCount() === 1);
    await eventually("the end of the tunnel", () => proxy.countConnections() === 0);
  });

  it("attempts that wait for the proxy do not delay other attempts", async () => {
    proxy.setReaction("hold");
    const hangingAttempts = Array.from({ length: 100 }, () => getError({ connectTimeoutMs: 60_000 }));
    await eventually("100 requests", () => proxy.requests.length === 100);
    proxy.setReaction("open");
    expect(await getError()).to.equal("tls_failed");
    connections.close();
    expect(new Set(await Promise.all(hangingAttempts))).to.deep.equal(new Set(["connection_failed"]));
  });

  it("log lines about the proxy contain the cause, but not the credentials", async () => {
    const logs = captureLogs();
    connections = connectThrough(`http://clinic:hunter2@127.0.0.1:${proxy.port}`, { level: "debug" });
    proxy.setReaction(407);
    for (let n = 0; n < 3; n += 1) await attempt();
    expect(logs.text().match(/The egress proxy failed/g)).to.have.length(1);
    expect(logs.text())
      .to.contain("status 407")
      .and.to.not.match(/hunter2|aHVudGVyM|Y2xpbmljOm/);
  });
});
