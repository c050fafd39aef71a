import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { expect } from "chai";
import { endAll, gatewayTo, listen } from "./gateway-world.ts";

describe("gateway, before services that behave oddly", () => {
  afterEach(endAll);

  it("answers 502 when a service hangs up, and ends an answer that is cut short", async () => {
    const cut = await listen(
      net.createServer((socket) => {
        socket.once("data", (data) => {
          if (data.toString().startsWith("PUT")) socket.destroy();
          else socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        });
      }),
    );
    const own = await gatewayTo(cut);
    expect((await fetch(`${own.url}/a`, { method: "PUT" })).status).to.equal(502);
    const half = await fetch(`${own.url}/a`);
    expect(await half.text().catch(() => "cut short")).to.equal("cut short");
  });

  it("streams: the first part of an answer arrives before the last is written", async () => {
    let finish = () => undefined as unknown;
    const slow = await listen(
      http.createServer((_, response) => {
        response.write("first");
        finish = () => response.end("last");
      }),
    );
    const own = await gatewayTo(slow);
    const reader = (await fetch(`${own.url}/a`)).body!.getReader();
    expect(Buffer.from((await reader.read()).value!).toString()).to.equal("first");
    finish();
    expect(Buffer.from((await reader.read()).value!).toString()).to.equal("last");
  });

  it("hands on an answer that a service gives before it has read the body, though it hangs up at once", async () => {
    const answer = '{"ok":false,"error":"body_too_large"}';
    const hasty = await listen(
      net.createServer((socket) => {
        socket.once("data", () => {
          socket.pause();
          socket.write(
            `HTTP/1.1 413 Content Too Large\r\nConnection: close\r\nContent-Length: ${answer.length}\r\n\r\n${answer}`,
          );
          socket.destroySoon(); // what is unread makes the system reset the connection
        });
        socket.on("error", () => undefined);
      }),
    );
    const own = await gatewayTo(hasty);
    const body = Buffer.alloc(2_000_000, "x");
    for (let times = 0; times < 20; times += 1) {
      const response = await fetch(`${own.url}/a`, { method: "POST", body });
      expect([response.status, await response.text()]).to.eql([413, answer]);
    }
  });

  it("ends the connection of a request that a service has given up, so that it is answered once", async () => {
    const answer = '{"ok":false,"error":"request_timeout"}';
    const impatient = await listen(
      net.createServer((socket) => {
        socket.once("data", () =>
          socket.end(
            `HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: ${answer.length}\r\n\r\n${answer}`,
          ),
        );
        socket.on("error", () => undefined);
      }),
    );
    const own = await gatewayTo(impatient);
    const { hostname, port } = new URL(own.url);
    const client = net.connect(Number(port), hostname);
    client.write("POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{");
    let text = "";
    for await (const chunk of client) text += chunk;
    expect(text)
      .to.match(/^HTTP\/1\.1 408 /)
      .and.contain("Connection: close");
    expect(text.endsWith(answer)).to.equal(true);
  });

  it("stops within its bound, though a service never answers", async () => {
    const silent = await listen(net.createServer((socket) => void socket.on("error", () => undefined)));
    const own = await gatewayTo(silent, 50);
    const asked = once(silent, "connection");
    const outcome = fetch(`${own.url}/a`).then(
      () => "answered",
      () => "cut",
    );
    await asked;
    await own.close();
    expect(await outcome).to.equal("cut");
  });
});
