import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { expect } from "chai";
import { eventually } from "../../support/eventually.ts";
import { expectRefusal, type RawResponse, sendOne, sendRaw } from "../../support/raw-http.ts";
import { closeAll, listen, startGatewayTo } from "./gateway-world.ts";

/** Reads the whole body and answers with its length. */
function counting(onRequest: () => void = () => undefined): Promise<http.Server> {
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

function halfSent(length: number, sent: string): Buffer {
  return Buffer.from(`POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: ${length}\r\n\r\n${sent}`);
}

/** Creates a client that sends a part of a request and waits. */
function dawdle(url: string, bytes: Buffer): { socket: net.Socket; answer: () => string } {
  const { hostname, port } = new URL(url);
  const socket = net.connect(Number(port), hostname).on("error", () => undefined);
  let text = "";
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
  });
  socket.write(bytes);
  return { socket, answer: () => text };
}

function expectOwnRefusal(answer: RawResponse, status: number, error: string): void {
  expectRefusal(answer, status, error);
  expect(answer.headers["x-content-type-options"]).to.equal("nosniff");
}

describe("the gateway and request bodies", () => {
  afterEach(closeAll);

  it("the gateway forwards a complete request at once while 700 incomplete bodies wait, and answers those with 408", async () => {
    let requests = 0;
    const gateway = await startGatewayTo(await counting(() => requests++));
    const half = Array.from({ length: 700 }, () => sendRaw(gateway.url, halfSent(100, "{")));
    const settled = { count: 0 };
    for (const one of half) one.finally(() => settled.count++).catch(() => undefined);
    const answer = await fetch(`${gateway.url}/a`, { method: "POST", body: "hello" });
    expect([answer.status, await answer.text()]).to.eql([200, "5"]);
    expect(settled.count, "half-sent bodies that have ended").to.equal(0);
    for (const answers of await Promise.all(half)) {
      expect(answers).to.have.length(1);
      expectOwnRefusal(answers[0] as RawResponse, 408, "request_timeout");
    }
    expect(requests, "requests that reached the service").to.equal(1);
  });

  it("the gateway frees memory by refusing the oldest incomplete bodies, never one that arrives at once", async () => {
    const bodyLimits = { maxBytes: 65_536, maxTotalBytes: 100_000 };
    const gateway = await startGatewayTo(await counting(), { bodyLimits });
    const first = dawdle(gateway.url, halfSent(50_000, "x".repeat(40_000)));
    await once(first.socket, "connect");
    const second = dawdle(gateway.url, halfSent(50_000, "x".repeat(40_000)));
    await once(second.socket, "connect");
    for (let times = 0; times < 5; times += 1) {
      const whole = await fetch(`${gateway.url}/a`, { method: "POST", body: "x".repeat(60_000) });
      expect([whole.status, await whole.text()]).to.eql([200, "60000"]);
    }
    const refused = [first, second].filter(({ answer }) => answer() !== "");
    expect(refused.length).to.be.greaterThan(0);
    for (const { answer } of refused)
      expect(answer()).to.match(/^HTTP\/1\.1 503 .*Retry-After: 1.*"error":"too_many_bodies"/s);
    for (const { socket } of [first, second]) socket.destroy();
  });

  it("the gateway frees the memory of bodies whose client disconnected", async () => {
    let arrived = 0;
    const gateway = await startGatewayTo(await counting(() => arrived++), {
      bodyLimits: { maxBytes: 65_536, maxTotalBytes: 100_000 },
    });
    for (let times = 0; times < 10; times += 1) {
      const cut = dawdle(gateway.url, halfSent(50_000, "x".repeat(40_000)));
      await once(cut.socket, "connect");
      cut.socket.destroy();
    }
    const last = dawdle(gateway.url, halfSent(60_001, "x".repeat(60_000)));
    const whole = await fetch(`${gateway.url}/a`, { method: "POST", body: "x".repeat(40_000) });
    expect(whole.status).to.equal(200);
    last.socket.write("x");
    await eventually("the last one is answered", () => last.answer().endsWith("60001"));
    last.socket.destroy();
    expect(arrived).to.equal(2);
  });

  it("the gateway forwards a body that arrives byte by byte completely and with its length", async () => {
    const gateway = await startGatewayTo(await counting());
    const head = "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n";
    const answer = await sendOne(gateway.url, `${head}${"1\r\nx\r\n".repeat(65_536)}0\r\n\r\n`);
    expect([answer.status, answer.text]).to.eql([200, "65536"]);
  });

  it("the gateway refuses a body above the limit with 413, with or without Content-Length, and the client can read the answer", async () => {
    let requests = 0;
    const gateway = await startGatewayTo(await counting(() => requests++));
    const fits = await fetch(`${gateway.url}/a`, { method: "POST", body: "x".repeat(65_536) });
    expect([fits.status, await fits.text()]).to.eql([200, "65536"]);
    for (const body of [Buffer.alloc(65_537, "x"), Buffer.alloc(2_000_000, "x")]) {
      const head = "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n";
      const declared = Buffer.concat([Buffer.from(`${head}Content-Length: ${body.length}\r\n\r\n`), body]);
      expectOwnRefusal(await sendOne(gateway.url, declared), 413, "body_too_large");
      const chunk = Buffer.from(`${head}Transfer-Encoding: chunked\r\n\r\n${body.length.toString(16)}\r\n`);
      const chunked = Buffer.concat([chunk, body, Buffer.from("\r\n0\r\n\r\n")]);
      expectOwnRefusal(await sendOne(gateway.url, chunked), 413, "body_too_large");
    }
    expect(requests).to.equal(1);
  });

  it("the gateway answers with an error body if a service is down or disconnects", async () => {
    const hangsUp = await listen(net.createServer((socket) => socket.once("data", () => socket.destroy())));
    const request = Buffer.from(
      "POST /a HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 1\r\n\r\nx",
    );
    const gateway = await startGatewayTo(hangsUp);
    expectOwnRefusal(await sendOne(gateway.url, request), 502, "upstream_unavailable");
    hangsUp.close();
    expectOwnRefusal(await sendOne(gateway.url, request), 503, "upstream_unavailable");
  });

  it("closed idle connections cause no 502, and only safe requests are retried", async () => {
    const seen: Record<string, number> = {};
    const closing = await listen(
      http.createServer({ keepAlive: true }, (request, response) => {
        const key = `${request.method} ${request.url}`;
        seen[key] = (seen[key] ?? 0) + 1;
        request.resume();
        // The service keeps the connection and closes it at the worst moment: when the gateway reuses it.
        response.on("finish", () => setImmediate(() => request.socket.destroy()));
        response.end("ok");
      }),
    );
    const gateway = await startGatewayTo(closing);
    const statuses: Record<number, number> = {};
    let next = 0;
    const worker = async () => {
      for (let number = next++; number < 2_000; number = next++) {
        const method = ["POST", "POST", "DELETE", "GET"][number % 4] as string;
        const body = number % 4 === 0 ? { body: "x" } : {};
        const answer = await fetch(`${gateway.url}/${number}`, { method, ...body });
        await answer.text();
        statuses[answer.status] = (statuses[answer.status] ?? 0) + 1;
      }
    };
    await Promise.all(Array.from({ length: 16 }, worker));
    expect(statuses).to.eql({ 200: 2_000 });
    const repeated = Object.entries(seen).filter(([key, times]) => times > 1 && !key.startsWith("GET"));
    expect(repeated).to.eql([]);
  });
});
