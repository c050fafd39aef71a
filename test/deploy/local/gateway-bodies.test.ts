import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { expect } from "chai";
import { eventually } from "../../support/eventually.ts";
import { expectRefusal, type RawResponse, sendOneRequest, sendRaw } from "../../support/raw-http.ts";
import { closeAll, listen, startGatewayTo } from "./gateway-world.ts";

/** Starts a service that reads the whole body and returns its length. */
function startCountingService(onRequest: () => void = () => undefined): Promise<http.Server> {
  const server = http.createServer((request, response) => {
    onRequest();
    let length = 0;
    request.on("data", (chunk: Buffer) => {
      length += chunk.length;
    });
    request.on("end", () => response.end(String(length)));
  });
  return listen(server);
}

/** Returns a request with this Content-Length and only a part of the body. */
function buildIncompleteRequest(length: number, bodyPart: string): Buffer {
  return Buffer.from(`POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n${bodyPart}`);
}

/** A client that has sent a part of a request and waits. */
interface SlowClient {
  socket: net.Socket;
  response: () => string;
}

async function startSlowClient(url: string, bytes: Buffer): Promise<SlowClient> {
  const { hostname, port } = new URL(url);
  const socket = net.connect(Number(port), hostname).on("error", () => undefined);
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
  });
  socket.write(bytes);
  await once(socket, "connect");
  return { socket, response: () => text };
}

function expectGatewayError(response: RawResponse, status: number, error: string): void {
  expectRefusal(response, status, error);
  expect(response.headers["x-content-type-options"]).to.equal("nosniff");
}

describe("the gateway and request bodies", () => {
  afterEach(closeAll);

  it("the gateway forwards a complete request without delay while 700 bodies are incomplete", async () => {
    let requestCount = 0;
    const gateway = await startGatewayTo(await startCountingService(() => requestCount++));
    const request = buildIncompleteRequest(100, "{");
    const clients = await Promise.all(Array.from({ length: 700 }, () => startSlowClient(gateway.url, request)));
    const response = await fetch(`${gateway.url}/a`, { method: "POST", body: "hello" });
    expect([response.status, await response.text()]).to.eql([200, "5"]);
    const isWaiting = ({ socket, response }: SlowClient) => !socket.closed && response() === "";
    expect(clients.filter(isWaiting), "clients that wait").to.have.length(700);
    expect(requestCount, "requests that reached the service").to.equal(1);
  });

  it("if 700 clients do not complete request bodies in time, each client gets a 408 response from the gateway", async () => {
    let requestCount = 0;
    const clientTimeouts = { headersTimeoutMs: 2_000, requestTimeoutMs: 2_000 };
    const gateway = await startGatewayTo(await startCountingService(() => requestCount++), { clientTimeouts });
    const request = buildIncompleteRequest(100, "{");
    const clients = Array.from({ length: 700 }, () => sendRaw(gateway.url, request));
    for (const responses of await Promise.all(clients)) {
      expect(responses).to.have.length(1);
      expectGatewayError(responses[0] as RawResponse, 408, "request_timeout");
    }
    expect(requestCount, "requests that reached the service").to.equal(0);
  });

  it("the gateway refuses the oldest incomplete bodies to free memory, but never refuses a body that arrives in one piece", async () => {
    const bodyLimits = { maxBytes: 65_536, maxTotalBytes: 100_000 };
    const gateway = await startGatewayTo(await startCountingService(), { bodyLimits });
    const request = buildIncompleteRequest(50_000, "x".repeat(40_000));
    const clients = [await startSlowClient(gateway.url, request), await startSlowClient(gateway.url, request)];
    for (let count = 0; count < 5; count += 1) {
      const response = await fetch(`${gateway.url}/a`, { method: "POST", body: "x".repeat(60_000) });
      expect([response.status, await response.text()]).to.eql([200, "60000"]);
    }
    const refusedClients = clients.filter(({ response }) => response() !== "");
    expect(refusedClients.length).to.be.greaterThan(0);
    for (const { response } of refusedClients)
      expect(response()).to.match(/^HTTP\/1\.1 503 .*Retry-After: 1.*"error":"too_many_bodies"/s);
    for (const { socket } of clients) socket.destroy();
  });

  it("the gateway frees the memory of a body if the client disconnects", async () => {
    let requestCount = 0;
    const gateway = await startGatewayTo(await startCountingService(() => requestCount++), {
      bodyLimits: { maxBytes: 65_536, maxTotalBytes: 100_000 },
    });
    for (let count = 0; count < 10; count += 1) {
      const request = buildIncompleteRequest(50_000, "x".repeat(40_000));
      (await startSlowClient(gateway.url, request)).socket.destroy();
    }
    const lastClient = await startSlowClient(gateway.url, buildIncompleteRequest(60_001, "x".repeat(60_000)));
    const response = await fetch(`${gateway.url}/a`, { method: "POST", body: "x".repeat(40_000) });
    expect(response.status).to.equal(200);
    lastClient.socket.write("x");
    await eventually("the response to the last client", () => lastClient.response().endsWith("60001"));
    lastClient.socket.destroy();
    expect(requestCount).to.equal(2);
  });

  it("the gateway forwards a body that arrives byte by byte, and keeps the header Content-Length", async () => {
    const gateway = await startGatewayTo(await startCountingService());
    const head = "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    const response = await sendOneRequest(gateway.url, `${head}${"1\r\nx\r\n".repeat(65_536)}0\r\n\r\n`);
    expect([response.status, response.text]).to.eql([200, "65536"]);
  });

  it("the gateway refuses a body above the limit with 413, even without Content-Length, and the client can read the response", async () => {
    let requestCount = 0;
    const gateway = await startGatewayTo(await startCountingService(() => requestCount++));
    const largestResponse = await fetch(`${gateway.url}/a`, { method: "POST", body: "x".repeat(65_536) });
    expect([largestResponse.status, await largestResponse.text()]).to.eql([200, "65536"]);
    for (const body of [Buffer.alloc(65_537, "x"), Buffer.alloc(2_000_000, "x")]) {
      const head = "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
      const declaredRequest = Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n`), body]);
      expectGatewayError(await sendOneRequest(gateway.url, declaredRequest), 413, "body_too_large");
      const chunk = Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n`);
      const chunkedRequest = Buffer.concat([chunk, body, Buffer.from("\r\n0\r\n\r\n")]);
      expectGatewayError(await sendOneRequest(gateway.url, chunkedRequest), 413, "body_too_large");
    }
    expect(requestCount).to.equal(1);
  });

  it("the gateway responds with an error body if a service is down or disconnects", async () => {
    const disconnectingServer = await listen(net.createServer((socket) => socket.once("data", () => socket.destroy())));
    const request = Buffer.from("POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx");
    const gateway = await startGatewayTo(disconnectingServer);
    expectGatewayError(await sendOneRequest(gateway.url, request), 502, "upstream_unavailable");
    disconnectingServer.close();
    expectGatewayError(await sendOneRequest(gateway.url, request), 503, "upstream_unavailable");
  });

  it("if a service closes an idle connection, no client gets 502, and the gateway retries only GET requests, and only once", async () => {
    const requestCounts: Record<string, number> = {};
    const usedConnections = new WeakSet<net.Socket>();
    const closingServer = await listen(
      http.createServer({ keepAlive: true }, (request, response) => {
        const key = `${request.method} ${request.url}`;
        requestCounts[key] = (requestCounts[key] ?? 0) + 1;
        // Simulates a service that closes an idle connection at the moment at which the gateway reuses it.
        if (usedConnections.has(request.socket)) request.socket.destroy();
        usedConnections.add(request.socket);
        request.resume();
        response.end("ok");
      }),
    );
    const gateway = await startGatewayTo(closingServer);
    const statusCounts: Record<number, number> = {};
    let nextRequestNumber = 0;
    const sendRequests = async () => {
      for (let requestNumber = nextRequestNumber++; requestNumber < 200; requestNumber = nextRequestNumber++) {
        const method = ["POST", "POST", "DELETE", "GET"][requestNumber % 4] as string;
        const body = requestNumber % 4 === 0 ? { body: "x" } : {};
        const response = await fetch(`${gateway.url}/${requestNumber}`, { method, ...body });
        await response.text();
        statusCounts[response.status] = (statusCounts[response.status] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: 4 }, sendRequests));
    expect(statusCounts).to.eql({ 200: 200 });
    const retriedKeys = Object.keys(requestCounts).filter((key) => requestCounts[key] !== 1);
    expect(retriedKeys).not.to.eql([]);
    expect(Math.max(...Object.values(requestCounts)), "requests to the service per request to the gateway").to.equal(2);
    expect(retriedKeys.filter((key) => !key.startsWith("GET"))).to.eql([]);
  });
});
