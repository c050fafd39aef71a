import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { expect } from "chai";
import fc from "fast-check";
import { type GatewayOptions, startGateway } from "../../../deploy/local/gateway/gateway-server.ts";
import type { HttpServer } from "../../../shared/http/listen.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { sendOneRequest } from "../../support/raw-http.ts";
import { autoStop } from "../../support/resources.ts";

/** A request as the service behind the gateway received it. */
interface ReceivedRequest {
  service: string;
  method: string;
  url: string;
  rawHeaders: string[];
  body: string;
}

/** Starts a service that responds with a description of the received request. */
function startService(service: string, port = 0) {
  const server = http.createServer({ maxHeaderSize: 65_536 }, (request, response) => {
    let body = "";
    request.setEncoding("utf8");
    request.on("data", (chunk) => {
      body += chunk;
    });
    request.on("end", () => {
      const { method, url, rawHeaders } = request;
      response.writeHead(200, ["Content-Type", "application/json", "Set-Cookie", "a=1", "Set-Cookie", "b=2"]);
      response.end(JSON.stringify({ service, method, url, rawHeaders, body }));
    });
  });
  return listenOnLoopback(server, port);
}

/** Starts a gateway that forwards all requests to one service. On close, it aborts open requests at once. */
async function startGatewayTo(service: net.Server, options: Partial<GatewayOptions> = {}): Promise<HttpServer> {
  const url = `http://${(await listenOnLoopback(service)).host}`;
  const upstreamUrls = { command: url, queryApi: url, audit: url };
  const defaults = { host: "127.0.0.1", port: 0, upstreamUrls, log: () => undefined, drainTimeoutMs: 0 };
  return autoStop(startGateway({ ...defaults, ...options }));
}

/** Sends raw bytes and returns the complete response. */
async function sendBytes(
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

describe("gateway", () => {
  let commandServer: Awaited<ReturnType<typeof startService>>;
  let gateway: HttpServer;
  let port: number;
  const lines: string[] = [];

  before(async () => {
    commandServer = await startService("command");
    const upstreamUrls = {
      command: `http://${commandServer.host}`,
      queryApi: `http://${(await startService("queryApi")).host}`,
      audit: `http://${(await startService("audit")).host}`,
    };
    const log = (line: string) => lines.push(line);
    gateway = await autoStop(startGateway({ host: "127.0.0.1", port: 0, upstreamUrls, log, drainTimeoutMs: 0 }));
    port = Number(new URL(gateway.url).port);
  });

  async function send(head: string, body = ""): Promise<ReceivedRequest> {
    const response = await sendBytes(port, `${head}\r\nHost: x\r\nConnection: close\r\n\r\n${body}`);
    const json = response.body.slice(response.body.indexOf("{"), response.body.lastIndexOf("}") + 1);
    return JSON.parse(json) as ReceivedRequest;
  }

  for (const [method, path, service] of [
    ["GET", "/api/v1/clinics", "queryApi"],
    ["GET", "/sandbox/v1/appointments?from=x", "queryApi"],
    ["POST", "/sandbox/v1/appointments", "command"],
    ["DELETE", "/production/v1/webhook-endpoints/1", "command"],
    ["PATCH", "/anything", "queryApi"],
    ["POST", "/api/v1/clinics", "queryApi"],
    ["DELETE", "/api/v1/nothing?x=1", "queryApi"],
    ["POST", "/docs", "queryApi"],
    ["DELETE", "/partner/v1/openapi.json", "queryApi"],
    ["GET", "/audit", "audit"],
    ["GET", "/audit?x=1", "audit"],
    ["GET", "/audit/v1/events?clinic=x", "audit"],
    ["POST", "/audit/v1/events", "audit"],
    ["GET", "/auditor", "queryApi"],
    ["GET", "/partner", "queryApi"],
    ["GET", "/partner/main.js", "queryApi"],
    ["GET", "//audit", "queryApi"],
    ["GET", "/x/../audit", "queryApi"],
    ["POST", "/sandbox/v10/appointments", "queryApi"],
    ["GET", "/.well-known/jwks.json", "command"],
    ["GET", "/.well-known/jwks.json?x=1", "command"],
    ["POST", "/.well-known/webhook-keys.json", "command"],
    ["GET", "//.well-known/jwks.json", "queryApi"],
    ["GET", "/x/../.well-known/jwks.json", "queryApi"],
    ["GET", "/.well-known%2Fjwks.json", "queryApi"],
    ["GET", "/.well-known/jwks.json/", "queryApi"],
    ["GET", "/.well-known/oauth-authorization-server/sandbox/v1", "command"],
    ["GET", "/.well-known/oauth-authorization-server", "queryApi"],
    ["GET", "/.well-known/oauth-authorization-servers/sandbox/v1", "queryApi"],
    ["GET", "/%2e%2e//command/../..%5c", "queryApi"],
    ["POST", "/..//sandbox/v1/appointments", "queryApi"],
  ])
    it(`the gateway forwards ${method} ${path} unchanged to ${service}`, async () => {
      const request = await send(`${method} ${path} HTTP/1.1`);
      expect([request.service, request.method, request.url]).to.eql([service, method, path]);
    });

  for (const [request, head, status, code] of [
    [
      "an absolute URL of another server",
      "GET http://elsewhere/api/v1/clinics HTTP/1.1\r\nHost: x",
      400,
      "malformed_request",
    ],
    ["a target without a path", "OPTIONS * HTTP/1.1\r\nHost: x", 400, "malformed_request"],
    ["the method CONNECT", "CONNECT elsewhere:443 HTTP/1.1\r\nHost: x", 400, "malformed_request"],
    ["a target with a space", "GET /a b HTTP/1.1\r\nHost: x", 400, "malformed_request"],
    ["a target with a control character", "GET /a\u0001 HTTP/1.1\r\nHost: x", 400, "malformed_request"],
    ["no Host header", "GET /a HTTP/1.1", 400, "malformed_request"],
    ["two Host headers", "GET /a HTTP/1.1\r\nHost: x\r\nHost: y", 400, "malformed_request"],
    ["no HTTP syntax", "hello", 400, "malformed_request"],
    ["headers over the limit", `GET /a HTTP/1.1\r\nHost: x\r\nx: ${"x".repeat(32_768)}`, 431, "headers_too_large"],
    ["a target over the limit", `GET /${"x".repeat(32_768)} HTTP/1.1\r\nHost: x`, 431, "headers_too_large"],
  ] as const)
    it(`the gateway refuses a request with ${request} and returns an error body`, async () => {
      const response = await sendBytes(port, `${head}\r\nConnection: close\r\n\r\n`);
      expect(response.status).to.equal(status);
      const error = JSON.parse(response.body.slice(response.body.indexOf("{"), response.body.lastIndexOf("}") + 1));
      expect(error).to.include({ ok: false, error: code });
      expect(response.headers).to.match(/^content-type: application\/json/im);
      expect(response.headers).to.contain(`X-Correlation-ID: ${error.correlationId}`);
    });

  it("the gateway answers GET and HEAD of its health checks, and other methods with 405", async () => {
    for (const path of ["/health/live", "/health/ready"]) {
      for (const [method, status, allow] of [
        ["GET", 200],
        ["HEAD", 200],
        ["POST", 405, "GET, HEAD"],
      ] as const) {
        const response = await fetch(gateway.url + path, { method });
        expect([response.status, response.headers.get("Allow")]).to.deep.equal([status, allow ?? null]);
      }
    }
  });

  it("the gateway forwards headers that are just below the size limit of the services", async () => {
    expect((await send(`GET /a HTTP/1.1\r\nx: ${"x".repeat(32_000)}`)).url).to.equal("/a");
  });

  it("the gateway returns 200 or 400 for a request target with random bytes", async () => {
    const targetArbitrary = fc.uint8Array({ minLength: 1, maxLength: 40 });
    await fc.assert(
      fc.asyncProperty(fc.constantFrom("GET", "POST", "CONNECT"), targetArbitrary, async (method, bytes) => {
        const text = Buffer.from(bytes).toString("latin1");
        const head = `${method} /${text} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`;
        const response = await sendBytes(port, Buffer.from(head, "latin1"));
        expect(response.status).to.be.oneOf([200, 400]);
      }),
      { numRuns: 200 },
    );
  });

  it("the gateway forwards bodies unchanged, and keeps the case, order and repetitions of headers in both directions", async () => {
    const head = "POST /a HTTP/1.1\r\nX-SERVICE-Clinic-ID: 1\r\nx-twice: a\r\nX-Twice: b\r\nContent-Length: 5";
    const request = await send(head, "hello");
    expect(request.rawHeaders.slice(0, 6)).to.eql(["X-SERVICE-Clinic-ID", "1", "x-twice", "a", "X-Twice", "b"]);
    expect(request.body).to.equal("hello");
    const response = await sendBytes(port, "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(response.headers.match(/Set-Cookie: \w=\d/g)).to.eql(["Set-Cookie: a=1", "Set-Cookie: b=2"]);
  });

  it("the gateway forwards chunked bodies of POST, DELETE and GET requests", async () => {
    for (const method of ["POST", "DELETE", "GET"]) {
      const request = await send(`${method} /a HTTP/1.1\r\nTransfer-Encoding: chunked`, "3\r\nabc\r\n0\r\n\r\n");
      expect([request.method, request.body]).to.eql([method, "abc"]);
    }
  });

  it("the gateway forwards a POST without a body with Content-Length 0", async () => {
    for (const head of ["POST /a HTTP/1.1", "POST /a HTTP/1.1\r\nContent-Length: 0"]) {
      const { rawHeaders } = await send(head);
      expect(rawHeaders.join(" ")).to.contain("Content-Length 0").and.not.to.contain("Transfer-Encoding");
    }
  });

  it("the gateway replaces X-Forwarded-For with the address of the client", async () => {
    const { rawHeaders } = await send("GET /a HTTP/1.1\r\nx-forwarded-for: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7");
    const addresses = rawHeaders.filter((_, index) => rawHeaders[index - 1]?.toLowerCase() === "x-forwarded-for");
    expect(addresses).to.eql(["127.0.0.1"]);
  });

  it("the gateway returns 503 while a service is down, and forwards requests after the service restarts", async () => {
    await commandServer.close();
    const response = await fetch(`${gateway.url}/sandbox/v1/a`, { method: "POST", body: "x" });
    expect(response.status).to.equal(503);
    expect(response.headers.get("retry-after")).to.equal("1");
    const body = (await response.json()) as Record<string, unknown>;
    expect(body).to.include({ ok: false, error: "upstream_unavailable" });
    expect(body.correlationId).to.equal(response.headers.get("x-correlation-id"));
    expect(lines.at(-1)).to.match(/^command: POST failed: /);
    expect((await fetch(`${gateway.url}/a`)).status, "the other service").to.equal(200);
    commandServer = await startService("command", commandServer.port);
    expect((await fetch(`${gateway.url}/sandbox/v1/a`, { method: "POST" })).status).to.equal(200);
  });
});

/** Starts a service that reads the request body and responds with its length. */
function createCountingService(): http.Server {
  return http.createServer((request, response) => {
    let length = 0;
    request.on("data", (chunk: Buffer) => {
      length += chunk.length;
    });
    request.on("end", () => response.setHeader("X-Content-Type-Options", "nosniff").end(String(length)));
  });
}

describe("the gateway and misbehaving services", () => {
  it("if a service disconnects, the gateway returns 502, or aborts the response if the response has already started", async () => {
    const disconnectingServer = net.createServer((socket) => {
      socket.once("data", (data) => {
        if (data.toString().startsWith("PUT")) socket.destroy();
        else socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
      });
    });
    const gateway = await startGatewayTo(disconnectingServer);
    expect((await fetch(`${gateway.url}/a`, { method: "PUT" })).status).to.equal(502);
    const halfResponse = await fetch(`${gateway.url}/a`);
    expect(await halfResponse.text().catch(() => "aborted")).to.equal("aborted");
  });

  it("the gateway survives status lines that it cannot forward", async () => {
    const statusLines = ["HTTP/1.1 200 O\x01K", "HTTP/1.1 099 Low", "HTTP/1.1 101 Switching Protocols"];
    const oddServer = net.createServer((socket) => {
      socket.on("error", () => undefined);
      socket.once("data", () => socket.end(`${statusLines.shift()}\r\nContent-Length: 0\r\n\r\n`));
    });
    const gateway = await startGatewayTo(oddServer);
    const statuses: number[] = [];
    for (let count = statusLines.length; count > 0; count -= 1) statuses.push((await fetch(`${gateway.url}/a`)).status);
    expect(statuses).to.eql([200, 502, 502]);
  });

  it("the gateway streams responses: the client receives the first part before the service writes the last part", async () => {
    let finish = () => undefined as unknown;
    const slowServer = http.createServer((_, response) => {
      response.write("first");
      finish = () => response.end("last");
    });
    const gateway = await startGatewayTo(slowServer);
    const reader = (await fetch(`${gateway.url}/a`)).body!.getReader();
    expect(Buffer.from((await reader.read()).value!).toString()).to.equal("first");
    finish();
    expect(Buffer.from((await reader.read()).value!).toString()).to.equal("last");
  });

  it("the gateway forwards the response of a service that disconnects without reading the body", async () => {
    const responseBody = '{"ok":false,"error":"missing_token"}';
    const hastyServer = net.createServer((socket) => {
      socket.once("data", () => {
        socket.pause();
        socket.write(
          `HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: ${responseBody.length}\r\n\r\n${responseBody}`,
        );
        // The socket still has unread data, so the operating system resets the connection.
        socket.destroySoon();
      });
      socket.on("error", () => undefined);
    });
    const gateway = await startGatewayTo(hastyServer);
    const body = Buffer.alloc(65_536, "x");
    for (let count = 0; count < 20; count += 1) {
      const response = await fetch(`${gateway.url}/a`, { method: "POST", body });
      expect([response.status, await response.text()]).to.eql([401, responseBody]);
    }
  });

  it("the gateway stops within the time limit even if a service never responds", async () => {
    const silentServer = net.createServer();
    const gateway = await startGatewayTo(silentServer, { drainTimeoutMs: 50 });
    const connectionPromise = once(silentServer, "connection");
    const outcomePromise = fetch(`${gateway.url}/a`).then(
      () => "responded",
      () => "aborted",
    );
    await connectionPromise;
    await gateway.close();
    expect(await outcomePromise).to.equal("aborted");
  });

  it("the gateway forwards a body that arrives byte by byte, and keeps the header Content-Length", async () => {
    const gateway = await startGatewayTo(createCountingService());
    const head = "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    const response = await sendOneRequest(gateway.url, `${head}${"1\r\nx\r\n".repeat(65_536)}0\r\n\r\n`);
    expect([response.status, response.text]).to.eql([200, "65536"]);
  });

  it("the gateway forwards enough of a body above the limit for the service to refuse it, and the client can read the response", async () => {
    const gateway = await startGatewayTo(createCountingService());
    const largestResponse = await fetch(`${gateway.url}/a`, { method: "POST", body: "x".repeat(65_536) });
    expect([largestResponse.status, await largestResponse.text()]).to.eql([200, "65536"]);
    for (const body of [Buffer.alloc(65_537, "x"), Buffer.alloc(2_000_000, "x")]) {
      const head = "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
      const declaredRequest = Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n`), body]);
      const declaredResponse = await sendOneRequest(gateway.url, declaredRequest);
      expect([declaredResponse.status, declaredResponse.text]).to.eql([200, "65537"]);
      const chunk = Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n`);
      const chunkedRequest = Buffer.concat([chunk, body, Buffer.from("\r\n0\r\n\r\n")]);
      const chunkedResponse = await sendOneRequest(gateway.url, chunkedRequest);
      expect([chunkedResponse.status, chunkedResponse.text]).to.eql([200, "65537"]);
    }
  });
});
