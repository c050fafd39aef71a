import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { createServer } from "node:http";
import { networkInterfaces } from "node:os";
import { expect } from "chai";
import { type Connections, createConnections } from "../../../../projection/webhooks/send/connections.ts";
import { send } from "../../../../projection/webhooks/send/send.ts";
import { eventually } from "../../../support/eventually.ts";
import { listenOnLoopback } from "../../../support/loopback.ts";
import { getPartnerPemPath, PARTNER_HOST, startPartnerTlsServer } from "../../../support/partner-tls-server.ts";
import { startRawReceiver } from "../../../support/raw-receiver.ts";
import { startReceiver } from "../../../support/receiver.ts";
import { useResource } from "../../../support/resources.ts";
import { startUnresponsiveServer } from "../../../support/unresponsive-server.ts";
import { runTrustedAttempts } from "../run-trusted-attempts.ts";

const OK_RESPONSE = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

describe("connections to receivers", () => {
  let connections: Connections;
  const attempt = (url: string, applicationId: string, options = {}) =>
    send(url, { "Content-Type": "application/json" }, "{}", {
      connections,
      applicationId,
      allowsLoopback: true,
      signal: new AbortController().signal,
      connectTimeoutMs: 10_000,
      timeoutMs: 10_000,
      ...options,
    });

  beforeEach(() => {
    connections = createConnections();
  });
  afterEach(async () => {
    connections.close();
  });

  describe("several addresses", () => {
    /** Starts a server at one address, and returns its port. */
    async function serveAt(address: string): Promise<number> {
      const server = createServer((request, response) => {
        request.resume();
        response.end();
      });
      return (await listenOnLoopback(server, 0, address)).port;
    }
    /** Sends a request to a host with the given addresses. @returns the status */
    async function post(port: number, addresses: readonly [string, ...string[]]): Promise<number | undefined> {
      const url = new URL(`http://receiver.example:${port}/`);
      const [response] = await once(connections.post("a", { url, addresses }, {}, false).end("{}"), "response");
      return response.resume().statusCode;
    }

    it("a request goes to the next address if one refuses connections or does not answer", async () => {
      const port = await serveAt("127.0.0.1");
      expect(await post(port, ["127.0.0.2", "127.0.0.1"])).to.equal(200);
      // TEST-NET-1 (RFC 5737), which nobody uses
      expect(await post(port, ["192.0.2.1", "127.0.0.1"])).to.equal(200);
      const error = await post(port, ["127.0.0.2", "127.0.0.3"]).catch((reason: NodeJS.ErrnoException) => reason.code);
      expect(error).to.equal("ECONNREFUSED");
    });

    it("a host with both address families, and localhost, reach a receiver that listens only on ::1", async function () {
      const addresses = Object.values(networkInterfaces()).flatMap((all = []) => all.map(({ address }) => address));
      if (!addresses.includes("::1")) this.skip();
      const port = await serveAt("::1");
      expect(await post(port, ["127.0.0.1", "::1"])).to.equal(200);
      expect((await attempt(`http://localhost:${port}/`, "a"))?.statusCode).to.equal(200);
    });
  });

  describe("pools", () => {
    const receiver = useResource(startReceiver, "test");

    it("200 hanging requests of an application do not delay other requests to the same origin", async () => {
      const [hangingApplicationId, otherApplicationId] = [randomUUID(), randomUUID()];
      receiver.setDefaultReaction({ mode: "hang" });
      const attemptPromises = Array.from({ length: 200 }, () =>
        attempt(receiver.url, hangingApplicationId, { timeoutMs: 60_000 }),
      );
      await eventually("200 requests", () => receiver.requests.length === 200);
      receiver.setDefaultReaction({});
      for (const applicationId of [otherApplicationId, hangingApplicationId])
        expect(await attempt(receiver.url, applicationId)).to.deep.include({ statusCode: 200, error: null });
      connections.close();
      const errors = (await Promise.all(attemptPromises)).map((attemptResult) => attemptResult?.error);
      expect(new Set(errors)).to.deep.equal(new Set(["connection_lost"]));
    });

    it("two applications with the same origin do not share connections", async () => {
      const [firstApplicationId, otherApplicationId] = [randomUUID(), randomUUID()];
      for (const applicationId of [firstApplicationId, otherApplicationId, firstApplicationId, otherApplicationId])
        await attempt(receiver.url, applicationId);
      const ports = receiver.requests.map(({ senderPort }) => senderPort);
      expect(ports).to.deep.equal([ports[0], ports[1], ports[0], ports[1]]);
      expect(new Set(ports).size).to.equal(2);
    });

    it("if more than 512 connections are idle, the connection with the longest idle time is closed", async () => {
      const firstApplicationId = randomUUID();
      await attempt(receiver.url, firstApplicationId);
      await Promise.all(Array.from({ length: 511 }, () => attempt(receiver.url, randomUUID())));
      const secondApplicationId = randomUUID();
      await attempt(receiver.url, secondApplicationId);
      const getSenderPort = (n: number) => receiver.requests.at(n)?.senderPort;
      const [firstPort, secondPort] = [getSenderPort(0), getSenderPort(-1)];
      await attempt(receiver.url, secondApplicationId);
      expect(getSenderPort(-1)).to.equal(secondPort);
      await attempt(receiver.url, firstApplicationId);
      expect(getSenderPort(-1)).not.to.equal(firstPort);
    });
  });

  describe("the time limits", () => {
    it("an attempt at a receiver that accepts no connection fails with connection_timeout", async () => {
      const unresponsiveServer = await startUnresponsiveServer();
      const timeouts = { connectTimeoutMs: 300, timeoutMs: 50 };
      const attemptResult = await attempt(`http://127.0.0.1:${unresponsiveServer.port}`, randomUUID(), timeouts);
      expect(attemptResult).to.deep.include({ statusCode: null, error: "connection_timeout", responseBody: null });
      expect(attemptResult!.durationMs).to.be.at.least(290);
    });

    it("an attempt at a receiver that never finishes the TLS handshake fails with connection_timeout", async () => {
      const silentReceiver = await startRawReceiver(() => undefined);
      const timeouts = { connectTimeoutMs: 300, timeoutMs: 50 };
      const attemptResult = await attempt(silentReceiver.url.replace("http:", "https:"), randomUUID(), timeouts);
      expect(attemptResult).to.deep.include({ statusCode: null, error: "connection_timeout" });
      expect(silentReceiver.connectionCount).to.equal(1);
    });

    it("an attempt whose host name cannot be resolved in time fails with lookup_failed", async () => {
      const lookup = () => new Promise<never>(() => undefined);
      const options = { allowsLoopback: false, lookup, connectTimeoutMs: 100, timeoutMs: 50 };
      const attemptResult = await attempt("https://hooks.partner.example/", randomUUID(), options);
      expect(attemptResult).to.deep.include({ statusCode: null, error: "lookup_failed" });
    });

    it("the time limit for the response starts when the connection is established", async () => {
      const unresponsiveServer = await startUnresponsiveServer();
      const timeoutMs = 1_500;
      const startedAtMs = performance.now();
      const attemptPromise = attempt(`http://127.0.0.1:${unresponsiveServer.port}`, randomUUID(), { timeoutMs });
      await eventually("the time limit passes", () => performance.now() - startedAtMs > timeoutMs + 100);
      unresponsiveServer.accept();
      expect(await attemptPromise).to.deep.include({ statusCode: 200, error: null });
    });
  });

  describe("a reused connection that the receiver closes", () => {
    it("if the receiver has just closed a reused connection, the request is sent a second time on a new connection", async () => {
      const receiver = await startRawReceiver((socket, requestNumber) => {
        if (requestNumber === 1) socket.write(OK_RESPONSE);
        else socket.destroy();
      });
      await attempt(receiver.url, "a");
      const attemptResult = await attempt(receiver.url, "a");
      expect(attemptResult).to.deep.include({ statusCode: 200, error: null });
      expect([receiver.requestCount, receiver.connectionCount]).to.deep.equal([3, 2]);
    });

    it("if the receiver closes both the reused and the new connection, the attempt fails after two requests", async () => {
      const receiver = await startRawReceiver((socket) => {
        if (receiver.requestCount > 1) socket.destroy();
        else socket.write(OK_RESPONSE);
      });
      await attempt(receiver.url, "a");
      expect(await attempt(receiver.url, "a")).to.deep.include({ error: "connection_lost" });
      expect([receiver.requestCount, receiver.connectionCount]).to.deep.equal([3, 2]);
    });

    it("if the receiver closes a reused connection during the response, the request is not sent a second time", async () => {
      const receiver = await startRawReceiver((socket, requestNumber) => {
        if (requestNumber === 1) socket.write(OK_RESPONSE);
        else socket.end("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok");
      });
      await attempt(receiver.url, "a");
      const attemptResult = await attempt(receiver.url, "a");
      expect(attemptResult).to.deep.include({ statusCode: 200, error: null, responseBody: "ok" });
      expect(receiver.requestCount).to.equal(2);
    });

    it("if the receiver closes the connection between two requests, the next request uses a new connection", async () => {
      const receiver = await startRawReceiver((socket) => socket.end(OK_RESPONSE));
      for (let n = 0; n < 5; n += 1)
        expect(await attempt(receiver.url, "a")).to.deep.include({ statusCode: 200, error: null });
    });

    it("a connection that will soon close according to the Keep-Alive header is not reused", async () => {
      const receiver = await startRawReceiver((socket) =>
        socket.write(OK_RESPONSE.replace("\r\n\r\n", "\r\nKeep-Alive: timeout=1\r\n\r\n")),
      );
      for (let n = 0; n < 3; n += 1) await attempt(receiver.url, "a");
      expect([receiver.requestCount, receiver.connectionCount]).to.deep.equal([3, 3]);
    });
  });

  describe("TLS", () => {
    const partnerServer = useResource(startPartnerTlsServer, "test");

    it("the host name of the URL verifies the certificate, and without a match no request is sent", async () => {
      const { port } = partnerServer;
      const attempts = [`https://${PARTNER_HOST}/in`, "https://hooks.other.example/in"].map((url) => ({ url, port }));
      const outcomes = await runTrustedAttempts(attempts, getPartnerPemPath("cert"));
      expect(outcomes).to.deep.equal([200, 200, "tls_failed", "tls_failed"]);
      const request = { serverName: PARTNER_HOST, host: `${PARTNER_HOST}:${port}` };
      expect(partnerServer.requests).to.deep.equal([request, request]);
    });

    it("if no known authority signed the certificate, the attempt fails with tls_failed before the request is sent", async () => {
      const attemptResult = await attempt(`https://localhost:${partnerServer.port}/in`, "a");
      expect(attemptResult).to.deep.include({ statusCode: null, error: "tls_failed" });
      expect(partnerServer.requests).to.deep.equal([]);
    });
  });
});
