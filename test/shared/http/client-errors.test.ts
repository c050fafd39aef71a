import { expect } from "chai";
import { pino } from "pino";
import { createApp } from "../../../shared/http/app.ts";
import { parseJsonBody } from "../../../shared/http/json-body.ts";
import { type HttpServer, listen } from "../../../shared/http/listen.ts";
import { eventually } from "../../support/eventually.ts";
import { expectRefusal, requestText, sendOne, sendRaw } from "../../support/raw-http.ts";

describe("an HTTP server with broken, slow or malicious clients", () => {
  let server: HttpServer;
  /** A second server with the same routes, but with short time limits for clients. */
  let impatient: HttpServer;
  let release: () => void = () => undefined;
  let held = 0;

  before(async () => {
    const app = createApp({
      logger: pino({ enabled: false }),
      retiredPaths: [],
      isProxyTrusted: false,
      readiness: async () => ({}),
    });
    const parse = parseJsonBody();
    app.use(async (ctx, next) => {
      if (ctx.path === "/held") {
        held += 1;
        await new Promise<void>((resolve) => {
          release = resolve;
        });
        ctx.body = { ok: true, held: true };
      } else if (ctx.path === "/begun") {
        ctx.respond = false;
        ctx.res.writeHead(200, { "Content-Length": "100" });
        ctx.res.write("begun");
      } else if (ctx.path === "/echo") {
        await parse(ctx, async () => {
          ctx.body = { ok: true, given: ctx.request.body };
        });
      } else await next();
    });
    server = await listen(app.callback(), "127.0.0.1", 0);
    const patience = { headersMs: 300, requestMs: 300 };
    impatient = await listen(app.callback(), "127.0.0.1", 0, 5_000, patience);
  });
  after(() => Promise.all([server.close(), impatient.close()]));
  afterEach("still answers others", async () => {
    expect((await fetch(`${server.url}/health/live`)).status).to.equal(200);
  });

  const json = "Content-Type: application/json";
  const live = "GET /health/live HTTP/1.1";
  const broken: [string, string | Buffer, number, string][] = [
    ["bytes that are not HTTP", "hello\r\n\r\n", 400, "malformed_request"],
    ["bytes of a TLS handshake", Buffer.from("16030100050100000103", "hex"), 400, "malformed_request"],
    ["the preface of HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "malformed_request"],
    ["an unknown method", requestText("BREW /health/live HTTP/1.1", []), 400, "malformed_request"],
    ["a space in the target", requestText("GET /health /live HTTP/1.1", []), 400, "malformed_request"],
    [
      "two different lengths",
      requestText("POST /echo HTTP/1.1", ["Content-Length: 2", "Content-Length: 3"]),
      400,
      "malformed_request",
    ],
    [
      "two equal lengths",
      requestText("POST /echo HTTP/1.1", ["Content-Length: 2", "Content-Length: 2"]),
      400,
      "malformed_request",
    ],
    [
      "a length that is not a number",
      requestText("POST /echo HTTP/1.1", ["Content-Length: 2x"]),
      400,
      "malformed_request",
    ],
    [
      "both a length and chunks",
      requestText("POST /echo HTTP/1.1", ["Content-Length: 5", "Transfer-Encoding: chunked"]),
      400,
      "malformed_request",
    ],
    [
      "a chunk without a length",
      `POST /echo HTTP/1.1\r\nHost: x\r\n${json}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n`,
      400,
      "malformed_request",
    ],
    ["a header without a name", requestText(live, [": x"]), 400, "malformed_request"],
    ["a header that continues on the next line", requestText(live, ["X-A: b", " c"]), 400, "malformed_request"],
    ["NUL in a header", requestText(live, ["X-A: a\0b"]), 400, "malformed_request"],
    [
      "a line feed without a carriage return in a header",
      requestText(live, ["X-A: a\nX-B: b"]),
      400,
      "malformed_request",
    ],
    ["no Host header", `${live}\r\n\r\n`, 400, "malformed_request"],
    ["two Host headers", requestText(live, ["Host: other"]), 400, "malformed_request"],
    ["the method CONNECT", "CONNECT other:443 HTTP/1.1\r\nHost: other:443\r\n\r\n", 400, "malformed_request"],
    ["headers of 40 KB", requestText(live, [`X-A: ${"a".repeat(40_000)}`]), 431, "headers_too_large"],
    ["a target of 40 KB", requestText(`GET /${"a".repeat(40_000)} HTTP/1.1`, []), 431, "headers_too_large"],
    [
      "ten thousand headers",
      requestText(
        live,
        Array.from({ length: 10_000 }, (_, i) => `x${i}: ${i}`),
      ),
      431,
      "headers_too_large",
    ],
    [
      "a chunk's extension of 40 KB",
      `POST /echo HTTP/1.1\r\nHost: x\r\n${json}\r\nTransfer-Encoding: chunked\r\n\r\n5;${"a".repeat(40_000)}\r\n`,
      413,
      "body_too_large",
    ],
  ];
  for (const [what, bytes, status, code] of broken) {
    it(`a request with ${what} is refused with ${status} ${code}`, async () => {
      const answer = await sendOne(server.url, bytes);
      expectRefusal(answer, status, code);
      expect(answer.headers.connection).to.equal("close");
    });
  }

  it("a request whose headers never end is refused with 408 request_timeout", async () => {
    expectRefusal(await sendOne(impatient.url, `${live}\r\nHost: x\r\nX-A: `), 408, "request_timeout");
  });

  it("a request whose body never ends is refused with 408 request_timeout", async () => {
    const start = `POST /echo HTTP/1.1\r\nHost: x\r\n${json}\r\nContent-Length: 50\r\n\r\n{"a":`;
    expectRefusal(await sendOne(impatient.url, start), 408, "request_timeout");
  });

  it("the server closes the connection of a slow body if the response has already started", async () => {
    const start = `POST /begun HTTP/1.1\r\nHost: x\r\n${json}\r\nContent-Length: 50\r\n\r\n{"a":`;
    const [answer, ...others] = await sendRaw(impatient.url, start);
    expect([answer?.status, answer?.text]).to.deep.equal([200, "begun"]);
    expect(others).to.deep.equal([]);
  });

  it("the server responds to a request in progress before refusing a malformed request on the same connection", async () => {
    const sent = sendRaw(server.url, `GET /held HTTP/1.1\r\nHost: x\r\n\r\nhello\r\n\r\n`);
    await eventually("the request under way", () => held > 0);
    release();
    const [first, second] = await sent;
    expect([first?.status, first?.body]).to.deep.equal([200, { ok: true, held: true }]);
    expectRefusal(second!, 400, "malformed_request");
  });

  it("the server responds to pipelined requests in order", async () => {
    const one = `GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n`;
    const answers = await sendRaw(server.url, one, one, requestText("GET /nothing HTTP/1.1", []));
    expect(answers.map(({ status }) => status)).to.deep.equal([200, 200, 404]);
  });

  it("the server sends 100 Continue and ignores an unknown Expect header", async () => {
    const [first, second] = await sendRaw(
      server.url,
      requestText("POST /echo HTTP/1.1", [json, "Expect: 100-continue"], '{"a":1}'),
    );
    expect(first?.status).to.equal(100);
    expect(second?.body).to.deep.equal({ ok: true, given: { a: 1 } });
    const unknown = await sendOne(server.url, requestText("POST /echo HTTP/1.1", [json, "Expect: cake"], "7"));
    expect(unknown.body).to.deep.equal({ ok: true, given: 7 });
  });

  it("the server survives clients that disconnect at any point of a request", async () => {
    const { hostname, port } = new URL(server.url);
    const { connect } = await import("node:net");
    const begun = [
      "",
      "GET /he",
      `${live}\r\n`,
      `POST /echo HTTP/1.1\r\nHost: x\r\n${json}\r\nContent-Length: 9\r\n\r\n{`,
      `GET /held HTTP/1.1\r\nHost: x\r\n\r\n`,
    ];
    for (const text of begun) {
      const socket = connect(Number(port), hostname);
      await new Promise<void>((resolve) => socket.write(text, () => resolve()));
      socket.resetAndDestroy();
    }
    release();
  });

  it("the server ignores an Upgrade header", async () => {
    const answer = await sendOne(server.url, requestText(live, ["Upgrade: websocket"]));
    expect(answer.status).to.equal(200);
  });
});
