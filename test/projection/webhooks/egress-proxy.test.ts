import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { expect } from "chai";
import { withDeathSignal } from "../../../deploy/local/setup/death-signal.mjs";
import { buildNodeCommand } from "../../../deploy/local/setup/project.ts";
import { deriveWebhookDeliveryId } from "../../../shared/domain/events/ids.ts";
import { type ConnectProxy, startConnectProxy } from "../../support/connect-proxy.ts";
import {
  getPartnerPemPath,
  PARTNER_HOST,
  type PartnerTlsServer,
  startPartnerTlsServer,
} from "../../support/partner-tls-server.ts";
import { createWorld, type Delivery, type World } from "./world.ts";

const PUBLIC_ADDRESS = "93.184.216.34";

describe("webhooks through an egress proxy", () => {
  let world: World;
  let partnerServer: PartnerTlsServer;
  let proxy: ConnectProxy;
  let child: ChildProcess | undefined;

  before(async () => {
    [world, partnerServer] = await Promise.all([createWorld(), startPartnerTlsServer()]);
    proxy = await startConnectProxy(partnerServer.port);
    world.start.projectors();
    world.start.relay();
  });
  after(async () => {
    child?.kill("SIGKILL");
    await proxy.close();
    await partnerServer.close();
    await world.close();
  });

  /** Starts the webhooks role in a process that trusts the certificate of the partner's server. */
  const startChild = async () => {
    const { eventstoreUrl, databaseUrl, natsUrl } = world;
    const settings = {
      ...{ eventstoreUrl, databaseUrl, natsUrl, address: PUBLIC_ADDRESS, timeoutMs: 10_000 },
      egressProxyUrl: `http://clinic:word@127.0.0.1:${proxy.port}`,
      retryScheduleSeconds: [0.1, ...Array.from({ length: 60 }, () => 1)],
    };
    const nodeCommand = buildNodeCommand("test/projection/webhooks/webhooks-process.ts");
    const [command, args] = withDeathSignal("SIGKILL", nodeCommand.command, nodeCommand.args);
    const env = { ...process.env, NODE_EXTRA_CA_CERTS: getPartnerPemPath("cert"), WORLD: JSON.stringify(settings) };
    child = spawn(command, args, { env, stdio: ["pipe", "pipe", "inherit"] });
    await once(child.stdout!, "data");
    child.stdin!.write("go");
    await once(child.stdout!, "data");
  };

  it("deliveries that fail because of the proxy are retried, and do not count as failures of the endpoint", async () => {
    await proxy.close();
    await startChild();
    const endpoint = await world.registerEndpoint(`https://${PARTNER_HOST}:8443/in`);
    const { eventId } = await world.requestAppointment(endpoint.clinicId);
    const hasFailedTwice = ({ attempts }: Delivery) => attempts.filter(({ error }) => error !== null).length >= 2;
    const { status } = await world.waitForDelivery(eventId, endpoint, hasFailedTwice);
    const { rows } = await world.pool.query("SELECT endpoint_id FROM webhooks.failing_endpoint");
    expect([status, rows]).to.deep.equal(["pending", []]);

    proxy = await startConnectProxy(partnerServer.port, { port: proxy.port });
    const { attempts } = await world.waitForDelivery(eventId, endpoint, ({ status }) => status === "delivered");
    expect(attempts.slice(0, -1).every(({ error }) => error === "egress_proxy_failed")).to.equal(true);
    expect(attempts.at(-1)).to.include({ status_code: 200, error: null });
    const deliveryId = deriveWebhookDeliveryId(eventId, endpoint.endpointId);
    const host = `${PARTNER_HOST}:8443`;
    expect(partnerServer.requests).to.deep.equal([{ serverName: PARTNER_HOST, host, deliveryId }]);
    const credentials = `Basic ${Buffer.from("clinic:word").toString("base64")}`;
    expect(proxy.requests).to.deep.equal([{ target: `${PUBLIC_ADDRESS}:8443`, credentials }]);
  });
});
