import { expect } from "chai";
import { type ConnectProxy, startConnectProxy } from "../../support/connect-proxy.ts";
import { PARTNER_HOST, type PartnerTlsServer, startPartnerTlsServer } from "../../support/partner-tls-server.ts";
import { createWorld, type World } from "./world.ts";

const PUBLIC_ADDRESS = "93.184.216.34";

describe("webhooks through an egress proxy", () => {
  let world: World;
  let partnerServer: PartnerTlsServer;
  let proxy: ConnectProxy;

  before(async () => {
    [world, partnerServer] = await Promise.all([createWorld(), startPartnerTlsServer()]);
    proxy = await startConnectProxy(partnerServer.port);
  });
  after(async () => {
    await world.close();
    await partnerServer.close();
  });

  it("deliveries that fail because of the proxy are retried, and do not count as failures of the endpoint", async () => {
    await proxy.close();
    world.startAll({
      egressProxyUrl: `http://clinic:word@127.0.0.1:${proxy.port}`,
      retryScheduleSeconds: [0.1, ...Array.from({ length: 60 }, () => 1)],
      connectTimeoutMs: 10_000,
      lookup: async () => [PUBLIC_ADDRESS],
    });
    const endpoint = await world.registerEndpoint(`https://${PARTNER_HOST}:8443/in`);
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const listErrors = (attempts: readonly { error: string | null }[]) =>
      attempts.flatMap(({ error }) => (error === null ? [] : [error]));
    const { status } = await world.waitForDelivery(
      eventId,
      endpoint,
      ({ attempts }) => listErrors(attempts).length >= 2,
    );
    const { rows } = await world.pool.query("SELECT endpoint_id FROM webhooks.failing_endpoint");
    expect([status, rows]).to.deep.equal(["pending", []]);

    proxy = await startConnectProxy(partnerServer.port, { port: proxy.port });
    // The test's process does not trust the certificate of the partner's server.
    const { attempts } = await world.waitForDelivery(
      eventId,
      endpoint,
      (delivery) => listErrors(delivery.attempts).at(-1) === "tls_failed",
    );
    expect(new Set(listErrors(attempts))).to.deep.equal(new Set(["egress_proxy_failed", "tls_failed"]));
    const credentials = `Basic ${Buffer.from("clinic:word").toString("base64")}`;
    expect(proxy.requests[0]).to.deep.equal({ target: `${PUBLIC_ADDRESS}:8443`, credentials });
  });
});
