import { once } from "node:events";
import http from "node:http";
import net from "node:net";
import { expect } from "chai";
import { closeAll, listen, startGatewayTo } from "./gateway-world.ts";

describe("the gateway and misbehaving services", () => {
  afterEach(closeAll);

  it("if a service disconnects, the gateway returns 502, or aborts the response if the response has already started", async () => {
    const disconnectingServer = await listen(
      net.createServer((socket) => {
        socket.once("data", (data) => {
          if (data.toString().startsWith("PUT")) socket.destroy();
          else socket.end("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf");
        });
      }),
    );
    const gateway = await startGatewayTo(disconnectingServer);
    expect((await fetch(`${gateway.url}/a`, { method: "PUT" })).status).to.equal(502);
    const halfResponse = await fetch(`${gateway.url}/a`);
    expect(await halfResponse.text().catch(() => "aborted")).to.equal("aborted");
  });

  it("the gateway streams responses: the client receives the first part before the service writes the last part", async () => {
    let finish = () => undefined as unknown;
    const slowServer = await listen(
      http.createServer((_, response) => {
        response.write("first");
        finish = () => response.end("last");
      }),
    );
    const gateway = await startGatewayTo(slowServer);
    const reader = (await fetch(`${gateway.url}/a`)).body!.getReader();
    expect(Buffer.from((await reader.read()).value!).toString()).to.equal("first");
    finish();
    expect(Buffer.from((await reader.read()).value!).toString()).to.equal("last");
  });

  it("the gateway forwards the response of a service that disconnects without reading the body", async () => {
    const responseBody = '{"ok":false,"error":"missing_token"}';
    const hastyServer = await listen(
      net.createServer((socket) => {
        socket.once("data", () => {
          socket.pause();
          socket.write(
            `HTTP/1.1 401 Unauthorized\r\nConnection: close\r\nContent-Length: ${responseBody.length}\r\n\r\n${responseBody}`,
          );
          // The socket still has unread data, so the operating system resets the connection.
          socket.destroySoon();
        });
        socket.on("error", () => undefined);
      }),
    );
    const gateway = await startGatewayTo(hastyServer);
    const body = Buffer.alloc(65_536, "x");
    for (let count = 0; count < 100; count += 1) {
      const response = await fetch(`${gateway.url}/a`, { method: "POST", body });
      expect([response.status, await response.text()]).to.eql([401, responseBody]);
    }
  });

  it("the gateway stops within the time limit even if a service never responds", async () => {
    const silentServer = await listen(net.createServer((socket) => void socket.on("error", () => undefined)));
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
});
