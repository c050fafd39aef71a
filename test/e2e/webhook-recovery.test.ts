import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { runClinic } from "../command/cli/terminal.ts";
import { type DocumentedService, startDocumentedService } from "../docs/documented-service.ts";
import { eventually } from "../support/eventually.ts";
import { UNREACHABLE_URL } from "../support/query-environment.ts";
import { startReceiver } from "../support/receiver.ts";
import { useResource } from "../support/resources.ts";
import { getTestServers } from "../support/stack.ts";
import { listAcceptingLibraries, webhookLibraryNames } from "../support/webhook-libraries.ts";
import { createWorld, type World } from "./world.ts";

/** A delivery as the partner API returns it. */
interface Delivery {
  id: string;
  appointmentId: string | null;
  type: string;
  status: string;
  attempts: { statusCode: number | null }[];
}

/** The portal's session settings. The tests do not call the portal. */
const PORTAL = { queryApi: { PORTAL_JWT_ISSUER: UNREACHABLE_URL, PORTAL_COOKIE_NAME: "session" } };

describe("tests and replays of webhooks", () => {
  let service: DocumentedService;
  let world: World;
  const receiver = useResource(startReceiver);
  let endpoint: { id: string; secret: string };

  before(async () => {
    service = await startDocumentedService({
      WEBHOOK_RETRY_SCHEDULE: "0.1",
      WEBHOOK_CONNECT_TIMEOUT_MS: "1000",
      WEBHOOK_TIMEOUT_MS: "1000",
    });
    const { root } = await getTestServers();
    const servers = { eventstoreUrl: service.api.eventstoreUrl, root };
    world = await createWorld({ servers, urls: { gateway: service.origin }, env: PORTAL });
    const { status, body } = await world.requestPartner("POST", "/webhook-endpoints", {
      body: { url: receiver.url, events: ["appointment.created"] },
    });
    expect(status).to.equal(201);
    endpoint = { id: body.endpoint.id, secret: body.secret };
  });

  const runOperator = (...args: string[]) =>
    runClinic([...args, "--endpoint", endpoint.id], { env: { EVENTSTORE_URL: service.api.eventstoreUrl } });
  const runReplay = (...args: string[]) =>
    runOperator("endpoint", "replay", "--since", "2020-01-01T00:00:00Z", ...args);
  const runReplayJson = async () => JSON.parse((await runReplay("--json")).outputLines.join());
  const post = (suffix: string) => world.requestPartner("POST", `/webhook-endpoints/${endpoint.id}${suffix}`);
  const getEndpoints = async (suffix = "") => (await world.requestPartner("GET", `/webhook-endpoints${suffix}`)).body;

  async function createAppointments(count: number): Promise<string[]> {
    const ids: string[] = [];
    for (let n = 0; n < count; n += 1) {
      const { status, body } = await world.createAppointment(`recovery-${randomUUID()}`);
      expect(status).to.equal(201);
      ids.push(body.appointment.id);
    }
    return ids;
  }
  /** Waits until deliveries have a status. @param ids ids of deliveries or of their appointments */
  const awaitStatus = (status: string, ids: readonly string[]) =>
    eventually(`deliveries that are ${status}`, async () => {
      const { deliveries = [] }: { deliveries?: Delivery[] } = await getEndpoints(`/${endpoint.id}/deliveries`);
      const found = deliveries.filter(({ id, appointmentId }) => ids.includes(id) || ids.includes(appointmentId ?? ""));
      return found.filter((delivery) => delivery.status === status).length === ids.length && found;
    });
  /** Changes the endpoint as an operator, and waits until the partner API shows the change. */
  async function changeStatus(operation: "disable" | "enable", expectedStatus: string): Promise<void> {
    expect((await runOperator("endpoint", operation)).code).to.equal(0);
    await eventually(`the endpoint ${expectedStatus}`, async () =>
      (await getEndpoints()).endpoints.some(
        ({ id, status }: Delivery) => id === endpoint.id && status === expectedStatus,
      ),
    );
  }

  it("partners and operators can send a test webhook", async () => {
    const { status, body } = await post("/test");
    expect([status, body.delivery.status]).to.deep.equal([202, "pending"]);
    const { outputLines } = await runOperator("webhooks", "test", "--json");
    const ids = [body.delivery.id, JSON.parse(outputLines.join()).deliveryId];
    for (const { id, type, attempts } of await awaitStatus("delivered", ids)) {
      expect([type, attempts.map(({ statusCode }) => statusCode)]).to.deep.equal(["endpoint.test", [200]]);
      const [request] = receiver.listDeliveryRequests(id);
      expect(listAcceptingLibraries(endpoint.secret, request!)).to.deep.equal(webhookLibraryNames);
      expect(JSON.parse(request!.body)).to.deep.include({ type: "endpoint.test", data: { test: true } });
    }
  });

  it("deliveries that were skipped while an endpoint was disabled can be replayed after the endpoint is enabled", async () => {
    const requestCount = receiver.requests.length;
    await changeStatus("disable", "disabled");
    const deliveries = await awaitStatus("skipped", await createAppointments(4));
    const ids = deliveries.map(({ id }) => id);
    const replayFirst = async () => (await post(`/deliveries/${ids[0]}/replay`)).status;
    expect(await replayFirst()).to.equal(409);
    expect((await post("/test")).body.error).to.equal("webhook_endpoint_disabled");
    expect((await runReplay()).code).to.equal(3);
    expect(receiver.requests.length).to.equal(requestCount);
    await changeStatus("enable", "active");

    expect(await replayFirst()).to.equal(202);
    await awaitStatus("delivered", ids.slice(0, 1));
    expect(await runReplayJson()).to.include({ changed: true });
    await awaitStatus("delivered", ids);
    expect(await runReplayJson()).to.include({ changed: false });
    for (const id of ids) expect(receiver.listDeliveryRequests(id)).to.have.length(1);
  });

  it("an operator can replay all failed deliveries after the partner's server is repaired", async () => {
    receiver.setDefaultReaction({ status: 500 });
    const appointmentIds = await createAppointments(3);
    await awaitStatus("failed", appointmentIds);
    receiver.setDefaultReaction({});
    expect((await runReplay("--until", new Date(Date.now() + 1).toISOString())).code).to.equal(0);
    for (const { attempts } of await awaitStatus("delivered", appointmentIds))
      expect(attempts.map(({ statusCode }) => statusCode)).to.deep.equal([500, 500, 200]);
  });
});
