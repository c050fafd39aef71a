import { once } from "node:events";
import type { Socket } from "node:net";
import { expect } from "chai";
import type { NatsConnection } from "nats";
import { withNats } from "../../../projection/nats/nats-session.ts";
import { startFaultProxy } from "../../support/fault-proxy.ts";
import { getTestServers } from "../../support/stack.ts";

describe("a session with NATS", () => {
  it("if a NATS session ends while the server is stopping, the session fails, but the process continues", async () => {
    const proxy = await startFaultProxy((await getTestServers()).natsUrl);
    const endController = new AbortController();
    const runSession = async (connection: NatsConnection, signal: AbortSignal) => {
      const subscription = connection.subscribe("anything");
      await connection.flush();
      // The server has closed the connection, but the client has not noticed yet, so the client can still write.
      getSocket(connection).once("end", () => endController.abort());
      signal.addEventListener("abort", () => subscription.unsubscribe());
      const abortPromise = once(signal, "abort");
      void proxy.close();
      await abortPromise;
    };
    // An uncaught error would fail the test.
    await withNats({ nats: { NATS_URL: proxy.url }, name: "test", signal: endController.signal }, runSession).catch(
      (error: unknown) => expect(error).to.be.instanceOf(Error),
    );
    expect(endController.signal.aborted).to.equal(true);
  });
});

function getSocket(connection: NatsConnection): Socket {
  return (connection as unknown as { protocol: { transport: { socket: Socket } } }).protocol.transport.socket;
}
