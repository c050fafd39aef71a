import { once } from "node:events";
import http from "node:http";
import net, { type AddressInfo } from "node:net";
import { expect } from "chai";
import { createGateway } from "../../../deploy/local/gateway-server.ts";

interface Seen {
  service: string;
  method: string;
  url: string;
  rawHeaders: string[];
  body: string;
}

/** A service that tells what reached it. */
async function upstream(service: string, port = 0): Promise<http.Server> {
  const server = http.createServer((request, response) => {
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
  return listen(server, port);
}

async function listen<Server extends net.Server>(server: Server, port = 0): Promise<Server> {
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  return server;
}

const portOf = (server: net.Server) => (server.address() as AddressInfo).port;
const origin = (server: net.Server) => `http://127.0.0.1:${portOf(server)}`;

/** Sends the bytes as they are and gives the whole answer. */
async function raw(port: number, text: string): Promise<{ status: number; headers: string; body: string }> {
  const socket = net.connect(port, "127.0.0.1");
  socket.write(text);
  let answer = "";
  socket.setEncoding("utf8");
  for await (const chunk of socket) answer += chunk;
  const [headers = "", ...body] = answer.split("\r\n\r\n");
  return { status: Number(headers.split(" ")[1]), headers, body: body.join("\r\n\r\n") };
}

describe("gateway", () => {
  let command: http.Server;
  let queryApi: http.Server;
  let gateway: http.Server;
  const lines: string[] = [];

  before(async () => {
    [command, queryApi] = [await upstream("command"), await upstream("queryApi")];
    const upstreams = { command: origin(command), queryApi: origin(queryApi) };
    gateway = await listen(createGateway({ upstreams, log: (line) => lines.push(line) }));
  });

  after(() => {
    for (const server of [gateway, command, queryApi]) server.close().closeAllConnections();
  });

  async function send(head: string, body = ""): Promise<Seen> {
    const answer = await raw(portOf(gateway), `${head}\r\nHost: x\r\nConnection: close\r\n\r\n${body}`);
    const json = answer.body.slice(answer.body.indexOf("{"), answer.body.lastIndexOf("}") + 1);
    return JSON.parse(json) as Seen;
  }

  for (const [method, path, service] of [
    ["GET", "/api/v1/clinics", "queryApi"],
    ["GET", "/sandbox/v1/appointments?from=x", "queryApi"],
    ["POST", "/sandbox/v1/appointments", "command"],
    ["DELETE", "/production/v1/webhook-endpoints/1", "command"],
    ["PATCH", "/anything", "command"],
    ["GET", "/.well-known/jwks.json", "command"],
    ["GET", "/.well-known/jwks.json?x=1", "command"],
    ["GET", "//.well-known/jwks.json", "queryApi"],
    ["GET", "/x/../.well-known/jwks.json", "queryApi"],
    ["GET", "/.well-known%2Fjwks.json", "queryApi"],
    ["GET", "/.well-known/jwks.json/", "queryApi"],
    ["GET", "/%2e%2e//command/../..%5c", "queryApi"],
    ["POST", "/..//api/v1/clinics", "command"],
  ]) {
    it(`sends ${method} ${path} to ${service}, its path untouched`, async () => {
      const seen = await send(`${method} ${path} HTTP/1.1`);
      expect([seen.service, seen.method, seen.url]).to.eql([service, method, path]);
    });
  }

  for (const target of ["http://elsewhere/api/v1/clinics", "*"]) {
    it(`refuses the target ${target}`, async () => {
      const method = target === "*" ? "OPTIONS" : "GET";
      const answer = await raw(
        portOf(gateway),
        `${method} ${target} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n`,
      );
      expect(answer.status).to.equal(400);
      expect(answer.body).to.include("invalid_request_target");
    });
  }

  it("keeps case, order and repetition of headers both ways, and the body", async () => {
    const head =
      "POST /a HTTP/1.1\r\nX-SERVICE-Clinic-ID: 1\r\nx-twice: a\r\nX-Twice: b\r\nContent-Length: 5";
    const seen = await send(head, "hello");
    expect(seen.rawHeaders.slice(0, 6)).to.eql(["X-SERVICE-Clinic-ID", "1", "x-twice", "a", "X-Twice", "b"]);
    expect(seen.body).to.equal("hello");
    const answer = await raw(portOf(gateway), "GET /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    expect(answer.headers.match(/Set-Cookie: \w=\d/g)).to.eql(["Set-Cookie: a=1", "Set-Cookie: b=2"]);
  });

  it("passes chunked bodies on, whatever the method", async () => {
    for (const method of ["POST", "DELETE", "GET"]) {
      const seen = await send(`${method} /a HTTP/1.1\r\nTransfer-Encoding: chunked`, "3\r\nabc\r\n0\r\n\r\n");
      expect([seen.method, seen.body]).to.eql([method, "abc"]);
    }
  });

  it("does not let Connection take the length off a body", async () => {
    const head = "GET /a HTTP/1.1\r\nConnection: content-length\r\nContent-Length: 33";
    expect((await send(head, "GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n".slice(0, 33))).url).to.equal("/a");
  });

  it("writes X-Forwarded-For itself", async () => {
    const { rawHeaders } = await send(
      "GET /a HTTP/1.1\r\nx-forwarded-for: 6.6.6.6\r\nX-Forwarded-For: 7.7.7.7",
    );
    const values = rawHeaders.filter(
      (_, index) => rawHeaders[index - 1]?.toLowerCase() === "x-forwarded-for",
    );
    expect(values).to.eql(["127.0.0.1"]);
  });

  it("answers 503 while a service is down, and passes on as soon as it is back", async () => {
    const port = portOf(command);
    command.close().closeAllConnections();
    const answer = await fetch(`${origin(gateway)}/a`, { method: "POST", body: "x" });
    expect(answer.status).to.equal(503);
    expect(answer.headers.get("retry-after")).to.equal("1");
    const body = (await answer.json()) as Record<string, unknown>;
    expect(body).to.include({ ok: false, error: "upstream_unavailable" });
    expect(body.correlationId).to.equal(answer.headers.get("x-correlation-id"));
    expect(lines.at(-1)).to.match(/^command: POST failed: /);
    expect((await fetch(`${origin(gateway)}/a`)).status, "the other service").to.equal(200);
    command = await upstream("command", port);
    expect((await fetch(`${origin(gateway)}/a`, { method: "POST" })).status).to.equal(200);
  });

  it("answers 502 when a service hangs up, and ends an answer that is cut short", async () => {
    const cut = await listen(
      net.createServer((socket) => {
        socket.once("data", (data) => {
          if (data.toString().startsWith("PUT")) socket.destroy();
          else socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        });
      }),
    );
    const upstreams = { command: origin(cut), queryApi: origin(cut) };
    const own = await listen(createGateway({ upstreams, log: () => undefined }));
    expect((await fetch(`${origin(own)}/a`, { method: "PUT" })).status).to.equal(502);
    const half = await fetch(`${origin(own)}/a`);
    expect(await half.text().catch(() => "cut short")).to.equal("cut short");
    own.close().closeAllConnections();
    cut.close();
  });

  it("streams: the first part of an answer arrives before the last is written", async () => {
    let finish = () => undefined as unknown;
    const slow = await listen(
      http.createServer((_, response) => {
        response.write("first");
        finish = () => response.end("last");
      }),
    );
    const upstreams = { command: origin(slow), queryApi: origin(slow) };
    const own = await listen(createGateway({ upstreams, log: () => undefined }));
    const reader = (await fetch(`${origin(own)}/a`)).body!.getReader();
    expect(Buffer.from((await reader.read()).value!).toString()).to.equal("first");
    finish();
    expect(Buffer.from((await reader.read()).value!).toString()).to.equal("last");
    own.close().closeAllConnections();
    slow.close().closeAllConnections();
  });
});
