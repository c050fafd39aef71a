import { expect } from "chai";
import { pino } from "pino";
import { createApp } from "../../../shared/http/app.ts";
import { type HttpServer, listen } from "../../../shared/http/listen.ts";
import { parseJsonBody } from "../../../shared/http/request-body.ts";
import { eventually } from "../../support/eventually.ts";
import { expectRefusal, sendOneRequest, sendRaw, toRequest } from "../../support/raw-http.ts";

describe("an HTTP server with broken, slow or malicious clients", () => {
  let server: HttpServer;
  /** A second server with the same routes, but with short time limits for clients. */
  let impatientServer: HttpServer;
  let release: () => void = () => undefined;
  let heldRequestCount = 0;

  before(async () => {
    const app = createApp({
      logger: pino({ enabled: false }),
      retiredPaths: [],
      isProxyTrusted: false,
      checkReadiness: async () => ({}),
    });
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
  const brokenRequests: [string, string | Buffer, number, string][] = [
    ["bytes that are not HTTP", "hello\r\n\r\n", 400, "malformed_request"],
    ["bytes of a TLS handshake", Buffer.from("16030100050100000103", "hex"), 400, "malformed_request"],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "malformed_request"],
    ["an unknown method", toRequest("BREW /health/live HTTP/1.1", []), 400, "malformed_request"],
    ["a space in the target", toRequest("GET /health /live HTTP/1.1", []), 400, "malformed_request"],
    [
      "two different lengths",
      toRequest("POST /echo HTTP/1.1", ["Content-Length: 2", "Content-Length: 3"]),
      400,
      "malformed_request",
    ],
    [
      "two equal lengths",
      toRequest("POST /echo HTTP/1.1", ["Content-Length: 2", "Content-Length: 2"]),
      400,
      "malformed_request",
    ],
    [
      "a length that is not a number",
      toRequest("POST /echo HTTP/1.1", ["Content-Length: 2x"]),
      400,
      "malformed_request",
    ],
    [
      "both a length and chunks",
      toRequest("POST /echo HTTP/1.1", ["Content-Length: 5", "Transfer-Encoding: chunked"]),
      400,
      "malformed_request",
    ],
    [
      "a chunk without a length",
      `POST /echo HTTP/1.1\r\nHost: x\r\n${jsonHeader}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      400,
      "malformed_request",
    ],
    ["a header without a name", toRequest(liveRequestLine, [": x"]), 400, "malformed_request"],
    [
      "a header that continues on the next line",
      toRequest(liveRequestLine, ["X-A: b", " c"]),
      400,
      "malformed_request",
    ],
    ["NUL in a header", toRequest(liveRequestLine, ["X-A: a\0b"]), 400, "malformed_request"],
    [
      "a line feed without a carriage return in a header",
      toRequest(liveRequestLine, ["X-A: a\nX-B: b"]),
      400,
      "malformed_request",
    ],
    ["no Host header", `${liveRequestLine}\r\n\r\n`, 400, "malformed_request"],
    ["two Host headers", toRequest(liveRequestLine, ["Host: other"]), 400, "malformed_request"],
    ["the method CONNECT", "CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n", 400, "malformed_request"],
    ["headers of 40 KB", toRequest(liveRequestLine, [`X-A: ${"a".repeat(40_000)}`]), 431, "headers_too_large"],
    ["a target of 40 KB", toRequest(`GET /${"a".repeat(40_000)} HTTP/1.1`, []), 431, "headers_too_large"],
    [
      "ten thousand headers",
      toRequest(
        liveRequestLine,
        Array.from({ length: 10_000 }, (_, i) => `x${i}: ${i}`),
      ),
      431,
      "headers_too_large",
    ],
    [
      "a chunk's extension of 40 KB",
      `POST /echo HTTP/1.1\r\nHost: x\r\n${jsonHeader}\r\nTransfer-Encoding: chunked\r\n\r\n5;${"a".repeat(40_000)}\r\n`,
      413,
      "body_too_large",
    ],
  ];
  for (const [caseName, bytes, status, code] of brokenRequests) {
    it(`a request with ${caseName} is refused with ${status} ${code}`, async () => {
      const response = await sendOneRequest(server.url, bytes);
      expectRefusal(response, status, code);
      expect(response.headers.connection).to.equal("close");
    });
  }

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

  it("the server responds to a request in progress before refusing a malformed request on the same connection", async () => {
    const responsesPromise = sendRaw(server.url, `GET /held HTTP/1.1\r\nHost: x\r\n\r\nhello\r\n\r\n`);
    await eventually("the request under way", () => heldRequestCount > 0);
    release();
    const [firstResponse, refusal] = await responsesPromise;
    expect([firstResponse?.status, firstResponse?.body]).to.deep.equal([200, { ok: true, held: true }]);
    expectRefusal(refusal!, 400, "malformed_request");
  });

  it("the server responds to pipelined requests in order", async () => {
    const request = `GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n`;
    const responses = await sendRaw(server.url, request, request, toRequest("GET /nothing HTTP/1.1", []));
    expect(responses.map(({ status }) => status)).to.deep.equal([200, 200, 404]);
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

  it("the server survives clients that disconnect at any point of a request", async () => {
    const { hostname, port } = new URL(server.url);
    const { connect } = await import("node:net");
    const partialRequests = [
      "",
      "GET /he",
      `${liveRequestLine}\r\n`,
      `POST /echo HTTP/1.1\r\nHost: x\r\n${jsonHeader}\r\nContent-Length: 9\r\n\r\n{`,
      `GET /held HTTP/1.1\r\nHost: x\r\n\r\n`,
    ];
    for (const partialRequest of partialRequests) {
      const socket = connect(Number(port), hostname);
      await new Promise<void>((resolve) => socket.write(partialRequest, () => resolve()));
      socket.resetAndDestroy();
    }
    release();
  });

  it("the server ignores an Upgrade header", async () => {
    const response = await sendOneRequest(server.url, toRequest(liveRequestLine, ["Upgrade: websocket"]));
    expect(response.status).to.equal(200);
  });
});
