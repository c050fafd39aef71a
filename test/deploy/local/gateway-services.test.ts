import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { expect } from "chai";
import { closeAll, listen, startGatewayTo } from "./gateway-world.ts";

describe("the gateway and misbehaving services", () => {
  afterEach(closeAll);

  it("the gateway answers 502 if a service disconnects, and aborts an incomplete answer", async () => {
    const cut = await listen(
      net.createServer((socket) => {
        socket.once("data", (data) => {
          if (data.toString().startsWith("PUT")) socket.destroy();
          else socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        });
      }),
    );
    const own = await startGatewayTo(cut);
    expect((await fetch(`${own.url}/a`, { method: "PUT" })).status).to.equal(502);
    const half = await fetch(`${own.url}/a`);
    expect(await half.text().catch(() => "cut short")).to.equal("cut short");
  });

  it("the gateway streams: the first part of an answer arrives before the last is written", async () => {
    let finish = () => undefined as unknown;
    const slow = await listen(
      http.createServer((_, response) => {
        response.write("first");
        finish = () => response.end("last");
      }),
    );
    const own = await startGatewayTo(slow);
    const reader = (await fetch(`${own.url}/a`)).body!.getReader();
    expect(Buffer.from((await reader.read()).value!).toString()).to.equal("first");
    finish();
    expect(Buffer.from((await reader.read()).value!).toString()).to.equal("last");
  });

  it("the gateway forwards an answer that a service sends before it reads the body and disconnects", async () => {
    const answer = '{"ok":false,"error":"missing_token"}';
    const hasty = await listen(
      net.createServer((socket) => {
        socket.once("data", () => {
          socket.pause();
          socket.write(
            `HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: ${answer.length}\r\n\r\n${answer}`,
          );
          socket.destroySoon(); // what is unread makes the system reset the connection
        });
        socket.on("error", () => undefined);
      }),
    );
    const own = await startGatewayTo(hasty);
    const body = Buffer.alloc(65_536, "x");
    for (let times = 0; times < 100; times += 1) {
      const response = await fetch(`${own.url}/a`, { method: "POST", body });
      expect([response.status, await response.text()]).to.eql([401, answer]);
    }
  });

  it("the gateway stops within its time limit even if a service never answers", async () => {
    const silent = await listen(net.createServer((socket) => void socket.on("error", () => undefined)));
    const own = await startGatewayTo(silent, { drainTimeoutMs: 50 });
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
