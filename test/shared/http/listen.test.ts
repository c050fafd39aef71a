import { subscribe, unsubscribe } from "node:diagnostics_channel";
import { once } from "node:events";
import http, { type ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { text } from "node:stream/consumers";
import { expect } from "chai";
import { type HttpServer, listen } from "../../../shared/http/listen.ts";
import { parseJsonBody } from "../../../shared/http/request-body.ts";
import { eventually } from "../../support/eventually.ts";
import { expectRefusal, sendOneRequest, sendRaw, toRequest } from "../../support/raw-http.ts";
import { resetConnections } from "../../support/reset-connections.ts";
import { createSilentApp } from "../../support/silent-app.ts";

describe("an HTTP server with broken, slow or malicious clients", () => {
  let server: HttpServer;
  /** Second server with the same routes and shorter time limits for clients. */
  let impatientServer: HttpServer;
  let release: () => void = () => undefined;
  let heldRequestCount = 0;

  before(async () => {
    const app = createSilentApp();
    const parseBody = parseJsonBody();
    app.use(async (ctx, next) => {
      if (ctx.path === "/held") {
        heldRequestCount += 1;
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        ctx.body = { ok: true, held: true };
      } else if (ctx.path === "/begun") {
        ctx.respond = false;
        ctx.res.writeHead(200, { "Content-Length": "100" });
        ctx.res.write("begun");
      } else if (ctx.path === "/echo") {
        await parseBody(ctx, async () => {
          ctx.body = { ok: true, given: ctx.request.body };
        });
      } else await next();
    });
    server = await listen(app.callback(), "127.0.0.1", 0);
    const clientTimeouts = { headersTimeoutMs: 300, requestTimeoutMs: 300 };
    impatientServer = await listen(app.callback(), "127.0.0.1", 0, 5_000, clientTimeouts);
  });
  after(() => Promise.all([server.close(), impatientServer.close()]));
  afterEach("still answers others", async () => {
    expect((await fetch(`${server.url}/health/live`)).status).to.equal(200);
  });

  const jsonHeader = "Content-Type: application/json";
  const liveRequestLine = "GET /health/live HTTP/1.1";
  const postRequest = (...headers: string[]) => toRequest("POST /echo HTTP/1.1", headers);
  const chunkedRequest = (chunk: string) =>
    `POST /echo HTTP/1.1\r\nHost: x\r\n${jsonHeader}\r\nTransfer-Encoding: chunked\r\n\r\n${chunk}\r\n`;
  const liveRequest = (...headers: string[]) => toRequest(liveRequestLine, headers);
  const manyHeaders = Array.from({ length: 10_000 }, (_, index) => `x${index}: ${index}`);
  const brokenRequests: Record<string, Record<string, string | Buffer>> = {
    "400 malformed_request": {
      "bytes that are not HTTP": "hello\r\n\r\n",
      "bytes of a TLS handshake": Buffer.from("16030100050100000103", "hex"),
      "the preface of HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
      "an unknown method": toRequest("BREW /health/live HTTP/1.1", []),
      "a space in the target": toRequest("GET /health /live HTTP/1.1", []),
      "two different lengths": postRequest("Content-Length: 2", "Content-Length: 3"),
      "two equal lengths": postRequest("Content-Length: 2", "Content-Length: 2"),
      "a length that is not a number": postRequest("Content-Length: 2x"),
      "both a length and chunks": postRequest("Content-Length: 5", "Transfer-Encoding: chunked"),
      "a chunk without a length": chunkedRequest("zz"),
      "a header without a name": liveRequest(": x"),
      "a header that continues on the next line": liveRequest("X-A: b", " c"),
      "NUL in a header": liveRequest("X-A: a\0b"),
      "a line feed without a carriage return in a header": liveRequest("X-A: a\nX-B: b"),
      "no Host header": `${liveRequestLine}\r\n\r\n`,
      "two Host headers": liveRequest("Host: other"),
      "the method CONNECT": "CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n",
    },
    "431 headers_too_large": {
      "headers of 40 KB": liveRequest(`X-A: ${"a".repeat(40_000)}`),
      "a target of 40 KB": toRequest(`GET /${"a".repeat(40_000)} HTTP/1.1`, []),
      "ten thousand headers": liveRequest(...manyHeaders),
    },
    "413 body_too_large": { "a chunk's extension of 40 KB": chunkedRequest(`5;${"a".repeat(40_000)}`) },
  };
  for (const [refusal, requests] of Object.entries(brokenRequests))
    for (const [caseName, bytes] of Object.entries(requests))
      it(`a request with ${caseName} is refused with ${refusal}`, async () => {
        const response = await sendOneRequest(server.url, bytes);
        const [status, code = ""] = refusal.split(" ");
        expectRefusal(response, Number(status), code);
        expect(response.headers.connection).to.equal("close");
      });

  it("a request whose headers never end is refused with 408 request_timeout", async () => {
    expectRefusal(
      await sendOneRequest(impatientServer.url, `${liveRequestLine}\r\nHost: x\r\nX-A: `),
      408,
      "request_timeout",
    );
  });

  it("a request whose body never ends is refused with 408 request_timeout", async () => {
    const requestStart = `POST /echo HTTP/1.1\r\nHost: x\r\n${jsonHeader}\r\nContent-Length: 50\r\n\r\n{"a":`;
    expectRefusal(await sendOneRequest(impatientServer.url, requestStart), 408, "request_timeout");
  });

  it("the server closes the connection of a slow body if the response has already started", async () => {
    const requestStart = `POST /begun HTTP/1.1\r\nHost: x\r\n${jsonHeader}\r\nContent-Length: 50\r\n\r\n{"a":`;
    const [response, ...otherResponses] = await sendRaw(impatientServer.url, requestStart);
    expect([response?.status, response?.text]).to.deep.equal([200, "begun"]);
    expect(otherResponses).to.deep.equal([]);
  });

  for (const [caseName, refusedRequest] of [
    ["a malformed", "hello\r\n\r\n"],
    ["a CONNECT", "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n"],
  ])
    it(`the server responds to a request in progress before refusing ${caseName} request on the same connection`, async () => {
      const heldCount = heldRequestCount;
      const responsesPromise = sendRaw(server.url, `GET /held HTTP/1.1\r\nHost: x\r\n\r\n${refusedRequest}`);
      await eventually("the request under way", () => heldRequestCount > heldCount);
      release();
      const [firstResponse, refusal] = await responsesPromise;
      expect([firstResponse?.status, firstResponse?.body]).to.deep.equal([200, { ok: true, held: true }]);
      expectRefusal(refusal!, 400, "malformed_request");
    });

  it("the server handles the pipelined requests of a connection one at a time, in order", async () => {
    const request = (method: string, path: string) => `${method} ${path} HTTP/1.1\r\nHost: x\r\n`;
    const echoRequest = `${request("POST", "/echo")}${jsonHeader}\r\nContent-Length: 1\r\n\r\n7`;
    const heldRequests = `${request("GET", "/held")}\r\n`.repeat(20);
    const countBefore = heldRequestCount;
    const responsesPromise = sendRaw(
      server.url,
      echoRequest + heldRequests + echoRequest,
      toRequest("GET /nothing HTTP/1.1", []),
    );
    for (let count = 1; count <= 20; count += 1) {
      await eventually("the next request", () => heldRequestCount === countBefore + count);
      release();
    }
    const statuses = (await responsesPromise).map(({ status }) => status);
    expect(statuses).to.deep.equal([...new Array(22).fill(200), 404]);
  });

  it("the server closes the connection of a chunked HTTP/1.0 request, and ignores what follows it", async () => {
    const head = `POST /echo HTTP/1.0\r\nConnection: keep-alive\r\n${jsonHeader}\r\nTransfer-Encoding: chunked\r\n\r\n`;
    const countBefore = heldRequestCount;
    for (const next of ["", "GET /held HTTP/1.1\r\nHost: x\r\n\r\n".repeat(2)]) {
      const responses = await sendRaw(server.url, `${head}2\r\n{}\r\n0\r\n\r\n${next}`);
      expect(responses.map(({ status, headers }) => [status, headers.connection])).to.deep.equal([[200, "close"]]);
    }
    expect(heldRequestCount).to.equal(countBefore);
  });

  it("the server sends 100 Continue and ignores an unknown Expect header", async () => {
    const [continueResponse, finalResponse] = await sendRaw(
      server.url,
      toRequest("POST /echo HTTP/1.1", [jsonHeader, "Expect: 100-continue"], '{"a":1}'),
    );
    expect(continueResponse?.status).to.equal(100);
    expect(finalResponse?.body).to.deep.equal({ ok: true, given: { a: 1 } });
    const response = await sendOneRequest(
      server.url,
      toRequest("POST /echo HTTP/1.1", [jsonHeader, "Expect: cake"], "7"),
    );
    expect(response.body).to.deep.equal({ ok: true, given: 7 });
  });

  it("the server survives clients that reset their connections at any step of a request", async () => {
    await resetConnections(server.url, [`GET /held HTTP/1.1\r\nHost: x\r\n\r\n`]);
    release();
  });

  it("the server closes the connection of a refused request, even if the client keeps its side open", async () => {
    const serverSockets: Socket[] = [];
    const track = (message: unknown) => serverSockets.push((message as { socket: Socket }).socket);
    subscribe("net.server.socket", track);
    const connectRequest = "CONNECT x:1 HTTP/1.1\r\nHost: x\r\n\r\n";
    const postStart = `POST /echo HTTP/1.1\r\nHost: x\r\n${jsonHeader}\r\nContent-Length: 50\r\n\r\n{"a":`;
    const refusedRequests = [connectRequest, `${connectRequest}more`, "hello\r\n\r\n", "GET /he", postStart];
    const port = Number(new URL(impatientServer.url).port);
    const clientSockets = refusedRequests.map((request) => {
      const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
      socket.write(request);
      return socket.on("error", () => undefined).resume();
    });
    await Promise.all(clientSockets.map((socket) => once(socket, "end")));
    expect(serverSockets.length).to.be.at.least(refusedRequests.length);
    await eventually("the server closes all connections", () => serverSockets.every(({ destroyed }) => destroyed));
    unsubscribe("net.server.socket", track);
    for (const socket of clientSockets) socket.destroy();
  });

  it("the server ignores an Upgrade header", async () => {
    const response = await sendOneRequest(server.url, toRequest(liveRequestLine, ["Upgrade: websocket"]));
    expect(response.status).to.equal(200);
  });
});

/** Drain time limit, longer than the test. Requests therefore end only when the server closes. Milliseconds. */
const DRAIN_TIMEOUT_MS = 600_000;

describe("a server that drains", () => {
  let server: HttpServer;
  let agent: http.Agent;
  /** Response that the handler has not ended. */
  let openResponse: ServerResponse | undefined;

  beforeEach(async () => {
    agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
    openResponse = undefined;
    server = await listen(
      (request, response) => {
        if (request.url === "/stream") response.write("first");
        if (request.url === "/") response.end("done");
        else openResponse = response;
      },
      "127.0.0.1",
      0,
      DRAIN_TIMEOUT_MS,
    );
  });

  afterEach(() => agent.destroy());

  async function get(path: string) {
    const request = http.get(`${server.url}${path}`, { agent });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    return { status: response.statusCode, connection: response.headers.connection, body: await text(response) };
  }

  it("the server keeps idle connections for longer than usual proxies do, and closes them when it stops", async () => {
    const request = http.get(server.url, { agent });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    expect(response.headers["keep-alive"]).to.equal("timeout=180");
    await text(response);
    await server.close();
  });

  it("a server that drains is not ready, handles requests, and closes their connections", async () => {
    expect(await get("/")).to.deep.equal({ status: 200, connection: "keep-alive", body: "done" });
    server.startDrain();
    expect(await get("/")).to.deep.equal({ status: 200, connection: "close", body: "done" });
    expect(await get("/health/ready")).to.deep.equal({
      status: 503,
      connection: "close",
      body: '{"ok":false,"parts":{"process":"stopping"}}',
    });
    await server.close();
  });

  it("a request that arrived before the server closes gets a response, although the server has not read it yet", async () => {
    const socket = connect(Number(new URL(server.url).port), "127.0.0.1");
    const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    socket.write(request);
    await once(socket, "data");
    socket.write(request);
    const closePromise = server.close();
    expect(await text(socket)).to.match(/^HTTP\/1\.1 200 OK[\s\S]*done$/);
    await closePromise;
  });

  it("a request in progress is finished, and its connection is closed", async () => {
    const responsePromise = get("/slow");
    await eventually("the request arrives", () => openResponse !== undefined);
    const closePromise = server.close();
    openResponse?.end("late");
    expect(await responsePromise).to.deep.equal({ status: 200, connection: "close", body: "late" });
    await closePromise;
  });

  it("a server closes the connection of a response whose headers were sent before the drain", async () => {
    const request = http.get(`${server.url}/stream`, { agent });
    const [response] = (await once(request, "response")) as [http.IncomingMessage];
    const startedAt = performance.now();
    const closePromise = server.close();
    openResponse?.end("last");
    expect(await text(response)).to.equal("firstlast");
    await closePromise;
    // Node itself closes an idle connection after five seconds.
    expect(performance.now() - startedAt).to.be.below(4_000);
  });
});
