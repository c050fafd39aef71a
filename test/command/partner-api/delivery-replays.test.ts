import { randomUUID } from "node:crypto";
import { expect } from "chai";
import type pg from "pg";
import { pino } from "pino";
import { toMetadata } from "../../../command/handling/handle.ts";
import { disableEndpoint } from "../../../command/operations/webhook-endpoint-operations.ts";
import { createReadModels } from "../../../command/partner-api/read-models.ts";
import { deriveDeliveryReplayId, deriveInstallationId } from "../../../shared/domain/events/ids.ts";
import type { AnimalAccess, WebhookReplayEvent } from "../../../shared/domain/events/partner.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createTestPool } from "../../support/connections.ts";
import {
  createPartnerWorld,
  createTestOperatorContext,
  type PartnerWorld,
  sendRequest,
} from "../../support/partner.ts";
import { createReadModelDatabase, type ReadModelDatabase } from "../../support/read-models.ts";
import { serveCommandApp } from "./command-app.ts";
import { type EndpointWorld, startEndpointWorld } from "./endpoint-world.ts";

const logger = pino({ enabled: false });

const connect = (url: string) => createTestPool(url, { statementTimeoutMs: 1_000 });

/** Number of consecutive requests without a replayed delivery after which requests are refused. */
const MAX_INEFFECTIVE_REQUESTS = 20;

describe("replayWebhookDelivery", () => {
  let { command, world, createEndpoint, getReference } = {} as EndpointWorld;
  let database: ReadModelDatabase;
  let pool: pg.Pool;
  let server: Awaited<ReturnType<typeof serveCommandApp>>;
  let endpointId: string;

  before(async () => {
    ({ command, world, createEndpoint, getReference } = await startEndpointWorld());
    database = await createReadModelDatabase();
    pool = connect(database.urls.command);
    server = await serveCommandApp(command, createReadModels(pool, command.log, logger));
    await approve();
  });
  beforeEach(async () => {
    endpointId = await createEndpoint();
  });

  /** Adds an approved installation to the read models. By default, it may see all deliveries. */
  async function approve(branchIds: string[] | null = null, animalAccess: AnimalAccess = "all"): Promise<void> {
    const { applicationId, clinicId } = world;
    const ids = { installationId: deriveInstallationId(applicationId, clinicId), applicationId, clinicId };
    const grant = { scopes: ["webhooks:write" as const], branchIds, animalAccess };
    await database.given(
      { type: "InstallationRequested", data: { ...ids, scopes: grant.scopes } },
      { type: "InstallationApproved", data: { ...ids, approvedBy: null, rateLimitPerMinute: 60, ...grant } },
    );
  }

  /**
   * Inserts a delivery, by default a failed delivery about the clinic's animal.
   *
   * @param changes columns to replace
   * @returns the delivery's id
   */
  async function insertDelivery(changes: Record<string, unknown> = {}): Promise<string> {
    const { applicationId, clinicId, environment, branchId, animalId } = world;
    const [deliveryId, eventId] = [randomUUID(), randomUUID()];
    const row = {
      ...{ delivery_id: deliveryId, endpoint_id: endpointId, application_id: applicationId, clinic_id: clinicId },
      ...{ environment, branch_id: branchId, animal_id: animalId, event_id: eventId, cause_id: eventId },
      ...{ event_type: "appointment.created", appointment_id: randomUUID(), event_position: 0 },
      ...{ status: "failed", attempt_count: 8, correlation_id: eventId },
      ...{ created_at: "2026-05-04T12:00:00Z", updated_at: "2026-05-04T12:00:00Z" },
      ...changes,
    };
    const parameters = Object.keys(row).map((_, index) => `$${index + 1}`);
    const sql = `INSERT INTO webhooks.delivery (${Object.keys(row)}) VALUES (${parameters})`;
    await database.admin.query(sql, Object.values(row));
    return deliveryId;
  }

  /**
   * Records the end of a replay, as the webhooks role does.
   *
   * @param replayPosition log position of the replay request; undefined if the delivery was not replayed
   */
  async function endReplay(deliveryId: string, replayId: string, replayPosition?: bigint): Promise<void> {
    const counts = { replayedCount: replayPosition ? 1 : 0, notReplayedCount: replayPosition ? 0 : 1 };
    const data = { replayId, endpointId, outcome: "completed" as const, ...counts };
    const metadata = toMetadata({
      ...createTestOperatorContext(),
      clinicId: world.clinicId,
      environment: "production",
    });
    const event = { type: "WebhookReplayCompleted" as const, data };
    await command.log.append(`webhookReplay-${replayId}`, 0n, [{ id: randomUUID(), event, metadata }]);
    if (replayPosition === undefined) return;
    const sql = "UPDATE webhooks.delivery SET replay_position = $2 WHERE delivery_id = $1";
    await database.admin.query(sql, [deliveryId, replayPosition]);
  }

  const replay = (deliveryId: string, caller: PartnerWorld = world, url = server.url) => {
    const path = `webhook-endpoints/${endpointId}/deliveries/${deliveryId}/replay`;
    return sendRequest("POST", `${url}/${caller.environment}/v1/${path}`, caller.headers);
  };
  const readReplay = (replayId: string) => command.log.read<WebhookReplayEvent>(`webhookReplay-${replayId}`);
  async function expectNotReplayable(deliveryId: string, caller: PartnerWorld = world): Promise<void> {
    const { status, body } = await replay(deliveryId, caller);
    expect([status, body.error]).to.deep.equal([409, "delivery_not_replayable"]);
  }

  for (const status of ["failed", "skipped"]) {
    it(`a partner's request replays a delivery with the status ${status}`, async () => {
      const deliveryId = await insertDelivery({ status });
      const response = await replay(deliveryId);
      expect(response.status).to.equal(202);
      expect(response.body).to.deep.equal({ ok: true, delivery: { id: deliveryId, status: "pending" } });
      const [event, ...laterEvents] = await readReplay(deriveDeliveryReplayId(deliveryId, null, 0));
      expect(laterEvents).to.deep.equal([]);
      const { applicationId, clinicId, environment } = world;
      const owner = { endpointId, applicationId, clinicId, environment };
      const selection = { deliveryIds: [deliveryId], statuses: ["failed", "skipped"], since: null };
      expect(event?.data).to.deep.include({ ...owner, ...selection, until: event?.metadata.occurredAt });
      expect(event?.metadata).to.deep.include({ clinicId, actor: { type: "application", id: applicationId } });
    });
  }

  it("a delivery cannot be replayed if it is unknown, pending, delivered or cancelled", async () => {
    await expectNotReplayable(randomUUID());
    await expectNotReplayable("last");
    for (const status of ["pending", "delivered", "cancelled"])
      await expectNotReplayable(await insertDelivery({ status }));
  });

  it("a delivery cannot be replayed again while an earlier request waits", async () => {
    const deliveryId = await insertDelivery();
    expect((await replay(deliveryId)).status).to.equal(202);
    await expectNotReplayable(deliveryId);
  });

  it("a delivery can be replayed again after each replay, and after a request that ended without a replay", async () => {
    const deliveryId = await insertDelivery();
    expect((await replay(deliveryId)).status).to.equal(202);
    await endReplay(deliveryId, deriveDeliveryReplayId(deliveryId, null, 0), 7_000n);
    expect((await replay(deliveryId)).status).to.equal(202);
    await endReplay(deliveryId, deriveDeliveryReplayId(deliveryId, 7_000n, 0));
    expect((await replay(deliveryId)).status).to.equal(202);
    await expectNotReplayable(deliveryId);
    expect(await readReplay(deriveDeliveryReplayId(deliveryId, 7_000n, 1))).to.have.length(1);
  });

  it("a delivery cannot be replayed after 20 requests in a row that ended without a replay", async () => {
    const deliveryId = await insertDelivery();
    for (let ordinal = 0; ordinal < MAX_INEFFECTIVE_REQUESTS; ordinal += 1) {
      expect((await replay(deliveryId)).status).to.equal(202);
      await endReplay(deliveryId, deriveDeliveryReplayId(deliveryId, null, ordinal));
    }
    await expectNotReplayable(deliveryId);
  });

  it("one of several concurrent requests for a delivery is accepted", async () => {
    const deliveryId = await insertDelivery();
    const responses = await Promise.all(Array.from({ length: 8 }, () => replay(deliveryId)));
    expect(responses.map(({ status }) => status).sort()).to.deep.equal([202, ...Array(7).fill(409)]);
    expect(await readReplay(deriveDeliveryReplayId(deliveryId, null, 0))).to.have.length(1);
  });

  it("a delivery of another endpoint, application, clinic or environment cannot be replayed", async () => {
    const otherValues = [
      { endpoint_id: randomUUID() },
      { application_id: randomUUID() },
      { clinic_id: randomUUID() },
      { clinic_id: null },
      { environment: "sandbox" },
    ];
    for (const changes of otherValues) await expectNotReplayable(await insertDelivery(changes));
    const { status, body } = await replay(await insertDelivery(), await createPartnerWorld(command));
    expect([status, body.error]).to.deep.equal([404, "webhook_endpoint_not_found"]);
  });

  it("a delivery about a branch that the application may no longer see cannot be replayed", async () => {
    const [hiddenId, visibleId, testId] = [
      await insertDelivery(),
      await insertDelivery({ branch_id: world.otherBranchId }),
      await insertDelivery({ branch_id: null, animal_id: null, event_type: "endpoint.test" }),
    ];
    await approve([world.otherBranchId]);
    await expectNotReplayable(hiddenId);
    for (const deliveryId of [visibleId, testId]) expect((await replay(deliveryId)).status).to.equal(202);
    await approve();
    expect((await replay(hiddenId)).status).to.equal(202);
  });

  it("a delivery about an animal cannot be replayed after its link was withdrawn, or its owner's data was erased", async () => {
    const { applicationId, clinicId, customerId, animalId } = world;
    const deliveryIds = [await insertDelivery(), await insertDelivery()] as const;
    await approve(null, "linked");
    await expectNotReplayable(deliveryIds[0]);
    const link = { animalId, clinicId, applicationId, linkId: randomUUID() };
    const linked = {
      type: "AnimalLinked" as const,
      data: { ...link, customerId, covers: "appointments_read" as const, sandboxGeneration: 0 },
    };
    await database.given(linked);
    expect((await replay(deliveryIds[0])).status).to.equal(202);
    await database.given({ type: "AnimalLinkWithdrawn", data: { ...link, requestedBy: "owner" } });
    await expectNotReplayable(deliveryIds[1]);
    const erasure = { categories: ["contact" as const], cause: "request" as const, reason: "asked" };
    await database.given(linked, { type: "CustomerDataErased", data: { customerId, ...erasure } });
    await expectNotReplayable(deliveryIds[1]);
    await approve();
  });

  it("a delivery of a disabled or revoked endpoint cannot be replayed", async () => {
    const deliveryId = await insertDelivery();
    await disableEndpoint(command.log, getReference(endpointId), createTestOperatorContext());
    await expectNotReplayable(deliveryId);
    await sendRequest("DELETE", `${server.url}/${world.environment}/v1/webhook-endpoints/${endpointId}`, world.headers);
    await expectNotReplayable(deliveryId);
  });

  it("a replay fails with 503 while Postgres is unavailable, or has no filled read models of this release", async () => {
    const deliveryId = await insertDelivery();
    const unreachablePool = connect("postgres://nobody:nothing@127.0.0.1:9/clinic");
    const lonelyServer = await serveCommandApp(command, createReadModels(unreachablePool, command.log, logger));
    const responses = [await replay(deliveryId, world, lonelyServer.url)];
    for (const [breakSql, repairSql] of [
      [
        `UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET filled = false`,
        `UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET filled = true`,
      ],
      [`ALTER SCHEMA ${READ_MODEL_SCHEMA} RENAME TO absent`, `ALTER SCHEMA absent RENAME TO ${READ_MODEL_SCHEMA}`],
    ] as const) {
      await database.admin.query(breakSql);
      responses.push(await replay(deliveryId));
      await database.admin.query(repairSql);
    }
    for (const { status, body, headers } of responses) {
      expect([status, body.error]).to.deep.equal([503, "data_source_unavailable"]);
      expect(headers.get("Retry-After")).to.equal("2");
    }
    expect(await readReplay(deriveDeliveryReplayId(deliveryId, null, 0))).to.deep.equal([]);
    expect((await replay(deliveryId)).status).to.equal(202);
  });
});
