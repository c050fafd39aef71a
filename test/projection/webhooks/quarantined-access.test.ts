import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { startProjectors } from "../../../projection/engine/projectors.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import type { Role } from "../../../projection/roles/role.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { eventually } from "../../support/eventually.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { runProjectionCommand } from "../engine-world.ts";
import { createWorld, type Endpoint } from "./world.ts";

interface Access {
  endpoint: Endpoint;
  animalId: string;
}

const link = ({ endpoint: { applicationId, clinicId }, animalId }: Access): CatalogEvent => ({
  type: "AnimalLinked",
  data: {
    ...{ animalId, clinicId, applicationId, linkId: randomUUID(), customerId: randomUUID() },
    ...{ covers: "appointments_read", sandboxGeneration: 0 },
  },
});

/** A further event of a stream that grants access, by category. The event itself does not change the access. */
const LATER_EVENTS: Record<string, (access: Access) => { id: string; event: CatalogEvent }> = {
  partnerApplication: ({ endpoint: { applicationId } }) => ({
    id: applicationId,
    event: { type: "WebhookOriginApproved", data: { applicationId, origin: "https://other.example" } },
  }),
  installation: ({ endpoint: { installationId } }) => ({
    id: installationId,
    event: { type: "InstallationRateLimitAgreed", data: { installationId, rateLimitPerMinute: 200 } },
  }),
  webhookEndpoint: ({ endpoint: { endpointId } }) => ({
    id: endpointId,
    event: { type: "WebhookEndpointChanged", data: { endpointId, ordering: "appointment" } },
  }),
  animalConsent: (access) => ({ id: access.animalId, event: link(access) }),
};

/** Categories whose quarantine does not stop webhooks, because no delivery depends on their rows. */
const IRRELEVANT_CATEGORIES = ["membership", "clinic"];

/** Read models of a faulty release, which cannot process events of a category since a given time. */
const createBrokenModels = (category: string, brokenSince: string) =>
  readModels.map((model) => {
    const throwIfBroken = (event: RecordedEvent) => {
      if (event.stream.startsWith(`${category}-`) && event.metadata.occurredAt >= brokenSince)
        throw new Error("This release is broken.");
    };
    const handlers = Object.entries(model.on).map(([type, handle]) => [
      type,
      (row: never, event: RecordedEvent, ...others: never[]) => {
        throwIfBroken(event);
        return (handle as (...args: unknown[]) => unknown)(row, event, ...others);
      },
    ]);
    return { ...model, on: Object.fromEntries(handlers) } as typeof model;
  });

describe("webhooks while a stream that grants access is quarantined", () => {
  const world = useResource(createWorld, "test");
  const receiver = useResource(startReceiver, "test");
  let access: Access;
  let otherEndpoint: Endpoint;
  let webhooks: Role;

  beforeEach(async () => {
    const endpoint = await world.registerEndpoint(`${receiver.url}/own`, { animalAccess: "linked" });
    access = { endpoint, animalId: randomUUID() };
    const { clinicId } = endpoint;
    otherEndpoint = await world.registerEndpoint(`${receiver.url}/other`, { clinicId });
    await world.append(`animalConsent-${access.animalId}`, link(access));
    webhooks = world.start.webhooks();
  });

  const requestAppointment = async () =>
    (await world.requestAppointment(access.endpoint.clinicId, { animalId: access.animalId })).eventId;
  const listSentIds = (path: string) =>
    receiver.requests.filter((request) => request.path === path).map(({ body }) => JSON.parse(body).id as string);

  /** Starts projectors of a faulty release. They quarantine the category's stream at its next event. */
  async function breakStream(category: string): Promise<Role> {
    const { id, event } = LATER_EVENTS[category]!(access);
    const brokenProjectors = startProjectors({
      ...world,
      models: createBrokenModels(category, new Date().toISOString()),
    });
    await world.append(`${category}-${id}`, event);
    await world.awaitRows("quarantined_stream", "stream = $1", [`${category}-${id}`]);
    return brokenProjectors;
  }

  /** Quarantines the category's stream. Then requests an appointment that only `otherEndpoint` receives. */
  async function quarantine(category: string) {
    const projectors = world.start.projectors();
    const firstId = await requestAppointment();
    await world.awaitStatus(firstId, access.endpoint, "delivered");
    await world.stopRoles(projectors);
    const brokenProjectors = await breakStream(category);
    const missedId = await requestAppointment();
    await world.awaitStatus(missedId, otherEndpoint, "delivered");
    expect(await world.readDelivery(missedId, access.endpoint)).to.equal(undefined);
    return { firstId, missedId, brokenProjectors };
  }

  /** Stops the faulty projectors, rebuilds the read models with this release, and starts its projectors. */
  async function rebuild(brokenProjectors: Role): Promise<void> {
    await brokenProjectors.stop();
    expect((await runProjectionCommand(world, "rebuild")).code).to.equal(0);
    world.start.projectors();
  }

  it("each category whose rows a quarantine deletes is tested here, or is irrelevant for webhooks", () => {
    const categories = readModels.flatMap(({ revokingStreams }) => revokingStreams?.name ?? []);
    expect(categories).to.have.members([...Object.keys(LATER_EVENTS), ...IRRELEVANT_CATEGORIES]);
  });

  for (const category of Object.keys(LATER_EVENTS))
    it(`the events during the quarantine of a stream ${category}- are sent afterwards, in order and once`, async () => {
      const { firstId, missedId, brokenProjectors } = await quarantine(category);
      await rebuild(brokenProjectors);
      const laterId = await requestAppointment();
      for (const id of [missedId, laterId])
        for (const endpoint of [access.endpoint, otherEndpoint]) await world.awaitStatus(id, endpoint, "delivered");
      await eventually("no late events", async () => {
        const { rowCount } = await world.pool.query("SELECT FROM webhooks.late_event WHERE needs_deliveries");
        return rowCount === 0;
      });
      for (const path of ["/own", "/other"])
        expect(listSentIds(path)).to.have.members([firstId, missedId, laterId]).and.have.lengthOf(3);
    });

  it("the same applies to events before the quarantine that the dispatcher had not processed", async () => {
    await world.stopRoles(webhooks);
    const projectors = world.start.projectors();
    const unprocessedId = await requestAppointment();
    await world.awaitRows("public_event", "event_id = $1", [unprocessedId]);
    await world.stopRoles(projectors);
    const brokenProjectors = await breakStream("installation");
    world.start.webhooks();
    await world.awaitStatus(unprocessedId, otherEndpoint, "delivered");
    await rebuild(brokenProjectors);
    await world.awaitStatus(unprocessedId, access.endpoint, "delivered");
  });

  it("events before an approval within the quarantine are not sent", async () => {
    const { missedId, brokenProjectors } = await quarantine("installation");
    const { applicationId, clinicId, installationId } = access.endpoint;
    await world.append(`installation-${installationId}`, {
      type: "InstallationRevoked",
      data: { installationId, reason: "clinic_request" },
    } as CatalogEvent);
    await world.append(`installation-${installationId}`, {
      type: "InstallationApproved",
      data: {
        ...{ installationId, applicationId, clinicId, scopes: ["webhooks:write"], branchIds: null },
        ...{ animalAccess: "linked", approvedBy: null, rateLimitPerMinute: 100 },
      },
    });
    const laterId = await requestAppointment();
    await world.awaitStatus(laterId, otherEndpoint, "delivered");
    await rebuild(brokenProjectors);
    await world.awaitStatus(laterId, access.endpoint, "delivered");
    expect(await world.readDelivery(missedId, access.endpoint)).to.equal(undefined);
  });
});
