import { once } from "node:events";
import { type AddressInfo, createServer, type Server } from "node:net";
import { expect } from "chai";
import { pino } from "pino";
import { createLongLivedClient } from "../../../shared/postgres/long-lived-connection.ts";

describe("a client of Postgres", () => {
  let server: Server;

  beforeEach(async () => {
    server = createServer((socket) => socket.resume()).listen(0, "127.0.0.1");
    await once(server, "listening");
  });
  afterEach(async () => {
    server.close();
    await once(server, "close");
  });

  it("a client that is closed while it connects reports that the connection has ended", async () => {
    const { port } = server.address() as AddressInfo;
    const databaseUrl = `postgres://user:password@127.0.0.1:${port}/clinic`;
    const client = createLongLivedClient({ databaseUrl, applicationName: "test", logger: pino({ enabled: false }) });
    const errorPromise = client.connect().catch((error: Error) => error);
    await once(server, "connection");
    await client.end();
    expect(await errorPromise).to.have.property("message", "Connection terminated");
  });
});
