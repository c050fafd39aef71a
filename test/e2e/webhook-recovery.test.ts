import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { runClinic } from "../command/cli/terminal.ts";
import { type DocumentedService, startDocumentedService } from "../docs/documented-service.ts";
import { eventually } from "../support/eventually.ts";
import { UNREACHABLE_URL } from "../support/query-environment.ts";
import { type Receiver, startReceiver } from "../support/receiver.ts";
import { getTestServers } from "../support/stack.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../support/webhook-libraries.ts";
import { createWorld, type World } from "./world.ts";

/** A delivery as the partner API returns it. */
interface Delivery {
  id: string;
  type: string;
  status: string;
  attempts: { number: number; statusCode: number | null }[];
}

/** The portal's session settings. The tests do not call the portal. */
const PORTAL = { queryApi: { PORTAL_JWT_ISSUER: UNREACHABLE_URL, PORTAL_COOKIE_NAME: "session" } };

describe("tests and replays of webhooks", () => {
  let service: DocumentedService;
  let world: World;
  let receiver: Receiver;
  let endpoint: { id: string; secret: string };
  let runOperator: (...args: string[]) => ReturnType<typeof runClinic>;

  before(async () => {
    service = await startDocumentedService({
      WEBHOOK_RETRY_SCHEDULE: "0.1",
      WEBHOOK_CONNECT_TIMEOUT_MS: "1000",
      WEBHOOK_TIMEOUT_MS: "1000",
    });
    const { eventstoreUrl } = service.api;
    const { root } = await getTestServers();
    world = await createWorld({ servers: { eventstoreUrl, root }, urls: { gateway: service.origin }, env: PORTAL });
    receiver = await startReceiver();
    runOperator = (...args) => runClinic(args, { env: { EVENTSTORE_URL: eventstoreUrl } });
    endpoint = await registerEndpoint();
  });
  after(async () => {
    await receiver?.close();
    await service?.stop();
  });

  async function registerEndpoint(): Promise<{ id: string; secret: string }> {
    const body = { url: receiver.url, events: ["appointment.created"] };
    const response = await world.requestPartner("POST", "/webhook-endpoints", { body });
    expect(response.status).to.equal(201);
    return { id: response.body.endpoint.id, secret: response.body.secret };
  }

  const buildPath = (suffix: string) => `/webhook-endpoints/${endpoint.id}${suffix}`;
  const listDeliveries = async (): Promise<Delivery[]> =>
    (await world.requestPartner("GET", buildPath("/deliveries"))).body.deliveries;
  const awaitDeliveries = (label: string, check: (listedDeliveries: Delivery[]) => boolean) =>
    eventually(label, async () => {
      const listedDeliveries = await listDeliveries();
      return check(listedDeliveries) && listedDeliveries;
    });
  const createAppointment = () => world.createAppointment(`recovery-${randomUUID()}`);
  /** Changes the endpoint as an operator, and waits until the partner API shows the change. */
  async function changeEndpointStatus(operation: "disable" | "enable", expectedStatus: string): Promise<void> {
    const { applicationId } = world;
    const ownerOptions = ["--application", applicationId, "--clinic", world.clinicId, "--environment", "sandbox"];
    expect((await runOperator("endpoint", operation, "--id", endpoint.id, ...ownerOptions)).code).to.equal(0);
    await eventually(`the endpoint ${expectedStatus}`, async () => {
      const { body } = await world.requestPartner("GET", "/webhook-endpoints");
      return body.endpoints.some((row: Delivery) => row.id === endpoint.id && row.status === expectedStatus);
    });
  }
  const runRecover = (...args: string[]) =>
    runOperator("webhooks", "recover", "--endpoint", endpoint.id, "--since", "2020-01-01T00:00:00Z", ...args);

  it("partners and operators can send a test webhook", async () => {
    const response = await world.requestPartner("POST", buildPath("/test"));
    expect([response.status, response.body.delivery.status]).to.deep.equal([202, "pending"]);
    const cliResult = await runOperator("webhooks", "test", "--endpoint", endpoint.id, "--json");
    const ids = [response.body.delivery.id, JSON.parse(cliResult.outputLines.join()).delivery];
    const filterDeliveredDeliveries = (deliveries: Delivery[]) =>
      deliveries.filter(({ status }) => status === "delivered");
    const listedDeliveries = await awaitDeliveries(
      "both tests",
      (deliveries) => filterDeliveredDeliveries(deliveries).length === ids.length,
    );
    expect(listedDeliveries.map(({ id }) => id)).to.have.members(ids);
    for (const { type, attempts } of listedDeliveries) {
      expect([type, attempts.map(({ statusCode }) => statusCode)]).to.deep.equal(["endpoint.test", [200]]);
    }
    for (const request of receiver.requests) {
      expect(listAcceptingLibraries(endpoint.secret, request)).to.deep.equal(webhookLibraryNames);
      expect(JSON.parse(request.body)).to.deep.include({ type: "endpoint.test", data: { test: true } });
    }
  });

  it("deliveries that were skipped while an endpoint was disabled can be replayed after the endpoint is enabled", async () => {
    const requestCount = receiver.requests.length;
    await changeEndpointStatus("disable", "disabled");
    for (let count = 0; count < 4; count += 1) expect((await createAppointment()).status).to.equal(201);
    const filterSkippedDeliveries = (deliveries: Delivery[]) => deliveries.filter(({ status }) => status === "skipped");
    const [firstDelivery, ...otherDeliveries] = filterSkippedDeliveries(
      await awaitDeliveries("4 skipped deliveries", (deliveries) => filterSkippedDeliveries(deliveries).length === 4),
    );
    expect((await world.requestPartner("POST", buildPath(`/deliveries/${firstDelivery!.id}/replay`))).status).to.equal(
      409,
    );
    expect((await world.requestPartner("POST", buildPath("/test"))).body.error).to.equal("webhook_endpoint_disabled");
    expect((await runRecover()).code).to.equal(3);
    expect(receiver.requests.length).to.equal(requestCount);
    await changeEndpointStatus("enable", "active");

    expect((await world.requestPartner("POST", buildPath(`/deliveries/${firstDelivery!.id}/replay`))).status).to.equal(
      202,
    );
    await awaitDeliveries("the replayed delivery", (deliveries) =>
      deliveries.some(({ id, status }) => id === firstDelivery!.id && status === "delivered"),
    );
    const counts = JSON.parse((await runRecover("--dry-run", "--json")).outputLines.join());
    expect(counts).to.include({ found: 3, requested: 0 });
    expect(JSON.parse((await runRecover("--json")).outputLines.join())).to.include({ found: 3, requested: 3, left: 0 });
    await awaitDeliveries("the other deliveries", (deliveries) =>
      otherDeliveries.every((other) => deliveries.some(({ id, status }) => id === other.id && status === "delivered")),
    );
    expect(JSON.parse((await runRecover("--json")).outputLines.join())).to.include({ found: 0, requested: 0 });
    for (const { id } of [firstDelivery!, ...otherDeliveries])
      expect(receiver.listDeliveryRequests(id)).to.have.length(1);
  });

  it("an operator can replay all failed deliveries after the partner's server is repaired", async () => {
    receiver.setDefaultReaction({ status: 500 });
    for (let count = 0; count < 3; count += 1) expect((await createAppointment()).status).to.equal(201);
    const filterFailedDeliveries = (deliveries: Delivery[]) => deliveries.filter(({ status }) => status === "failed");
    const failedDeliveries = filterFailedDeliveries(
      await awaitDeliveries("3 failures", (deliveries) => filterFailedDeliveries(deliveries).length === 3),
    );
    receiver.setDefaultReaction({});
    await eventually("their events in the log", async () => {
      const { found } = JSON.parse((await runRecover("--dry-run", "--json")).outputLines.join());
      return found === 3;
    });
    expect((await runRecover()).outputLines).to.deep.equal(["webhooks recover: 3 of 3 deliveries will be replayed"]);
    const listedDeliveries = await awaitDeliveries("all delivered", (all) =>
      all.every(({ status }) => status === "delivered"),
    );
    for (const { id } of failedDeliveries) {
      const { attempts } = listedDeliveries.find((delivery) => delivery.id === id)!;
      expect(attempts.map(({ statusCode }) => statusCode)).to.deep.equal([500, 500, 200]);
    }
  });
});
