import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { addDeliveries, MAX_BATCH_SIZE } from "../../../projection/webhooks/match/add-deliveries.ts";
import { listWebhookEndpoints } from "../../../query-api/partner/webhook-endpoints.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createIds, openClinic } from "../../support/clinics.ts";
import { openDatabase } from "../../support/connections.ts";
import { insertFailingEndpoint } from "../../support/failing-endpoint.ts";
import { endpointRegistered, registerApplication } from "../../support/partner-events.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import { setUpCaller } from "./caller.ts";

const TABLE = `${READ_MODEL_SCHEMA}.webhook_endpoint`;

describe("partner reads of webhook endpoints", () => {
  const api = setUpQueryApi();
  const caller = setUpCaller(api);

  it("listWebhookEndpoints returns the application's endpoints at the clinic, newest first, without secrets", async () => {
    const [olderEndpointId, newerEndpointId] = createIds();
    const otherApplication = await registerApplication(api.given);
    const otherClinic = await openClinic(api.given);
    await api.given(
      endpointRegistered(caller.application, caller.clinic.clinicId, olderEndpointId),
      {
        ...endpointRegistered(caller.application, caller.clinic.clinicId, newerEndpointId),
        at: "2026-03-02T08:00:00.000Z",
      },
      endpointRegistered(caller.application, otherClinic.clinicId, randomUUID()),
      endpointRegistered(otherApplication, caller.clinic.clinicId, randomUUID()),
      { type: "WebhookEndpointDisabled", data: { endpointId: olderEndpointId, reason: "gone" } },
    );
    const { endpoints } = await caller.readBody("listWebhookEndpoints", "/webhook-endpoints");
    expect(endpoints.map(({ id }: { id: string }) => id)).to.deep.equal([newerEndpointId, olderEndpointId]);
    expect(endpoints[1]).to.deep.equal({
      id: olderEndpointId,
      clinicId: caller.clinic.clinicId,
      url: "https://example.com/hook",
      events: ["appointment.created"],
      status: "disabled",
      disabledReason: "gone",
      createdAt: "2026-03-01T08:00:00.000Z",
      updatedAt: "2026-03-01T08:00:00.000Z",
      failingSince: null,
      failedAttempts: 0,
      formerSecretExpiresAt: null,
    });
  });

  async function registerEndpoint(): Promise<string> {
    const endpointId = randomUUID();
    await api.given(endpointRegistered(caller.application, caller.clinic.clinicId, endpointId));
    return endpointId;
  }

  it("listWebhookEndpoints and getWebhookEndpoint show since when an active endpoint is failing", async () => {
    const endpointId = await registerEndpoint();
    const since = "2026-03-02T08:00:00.123Z";
    await insertFailingEndpoint(api.database.admin, endpointId, { since, failures: 4 });
    const health = { failingSince: since, failedAttempts: 4 };
    const path = `/webhook-endpoints/${endpointId}`;
    expect((await caller.readBody("listWebhookEndpoints", "/webhook-endpoints")).endpoints[0]).to.include(health);
    expect((await caller.readBody("getWebhookEndpoint", path)).endpoint).to.include(health);
    await api.given({ type: "WebhookEndpointDisabled", data: { endpointId, reason: "partner" } });
    const { endpoint } = await caller.readBody("getWebhookEndpoint", path);
    expect(endpoint).to.include({ failingSince: null, failedAttempts: 0 });
  });

  it("reads of an endpoint show until when its latest valid former secret is valid", async () => {
    const endpointId = await registerEndpoint();
    const path = `/webhook-endpoints/${endpointId}`;
    const readEnd = async () => (await caller.readBody("getWebhookEndpoint", path)).endpoint.formerSecretExpiresAt;
    const rotate = (previousExpiresAt: string) =>
      api.given({
        type: "WebhookSecretRotated",
        data: { endpointId, secretId: randomUUID(), encryptedSecret: "v1:1:2:3", previousExpiresAt },
      });
    expect(await readEnd()).to.equal(null);
    await rotate("2026-03-02T08:00:00.000Z");
    expect(await readEnd()).to.equal(null);
    for (const end of ["2999-03-02T08:00:00.000Z", "2026-03-03T08:00:00.000Z"]) await rotate(end);
    expect(await readEnd()).to.equal("2999-03-02T08:00:00.000Z");
    await api.given({ type: "WebhookEndpointRevoked", data: { endpointId } });
    expect(await readEnd()).to.equal(null);
  });

  /** Returns the number of endpoint rows that Postgres has read so far. */
  async function countReadEndpoints(): Promise<number> {
    const { rows } = await api.database.admin.query<{ count: number }>(
      `SELECT (seq_tup_read + idx_tup_fetch)::integer AS count, pg_stat_clear_snapshot()
         FROM pg_stat_user_tables WHERE relid = '${TABLE}'::regclass`,
    );
    return rows[0]?.count ?? Number.NaN;
  }

  // Must be the last test, because it moves the checkpoints.
  it("20,000 revoked endpoints are read neither for a list beyond its maximum, nor to find the receivers of an event", async () => {
    const { application, clinic } = caller;
    const endpointId = await registerEndpoint();
    await api.database.admin.query(
      `INSERT INTO ${TABLE} SELECT (jsonb_populate_record(e, jsonb_build_object('endpoint_id', gen_random_uuid(),
         'status', 'revoked', 'created_at', e.created_at + n * interval '1 second'))).*
         FROM ${TABLE} e, generate_series(1, 20000) n WHERE e.endpoint_id = $1`,
      [endpointId],
    );
    await api.database.admin.query(`ANALYZE ${TABLE}`);
    await api.database.admin.query(
      `WITH read AS (UPDATE ${READ_MODEL_SCHEMA}.checkpoint SET position = 1000000000),
            moved AS (UPDATE webhooks.checkpoint SET position = 999999999)
       INSERT INTO ${READ_MODEL_SCHEMA}.public_event (event_id, position, occurred_at, type, clinic_id, branch_id, data,
         environment, correlation_id)
       VALUES (gen_random_uuid(), 1000000000, now(), 'appointment.created', $1, $2, '{}', 'production',
         gen_random_uuid())`,
      [clinic.clinicId, clinic.branchId],
    );
    const pool = openDatabase(api.database.urls.projection, 1);
    const countReads = async (read: () => Promise<void>) => {
      await pool.query("SELECT pg_stat_force_next_flush()");
      const countBefore = await countReadEndpoints();
      await read();
      await pool.query("SELECT pg_stat_force_next_flush()");
      return (await countReadEndpoints()) - countBefore;
    };
    const receiverReads = await countReads(async () => {
      const { dueEndpoints } = await addDeliveries(pool, 999_999_999n, MAX_BATCH_SIZE, Date.now());
      expect(dueEndpoints.map((endpoint) => endpoint.endpointId)).to.deep.equal([endpointId]);
    });
    expect(receiverReads).to.be.within(1, 10);
    const listReads = await countReads(async () => {
      const values = [clinic.clinicId, application.applicationId, "production"];
      const { rows } = await pool.query(listWebhookEndpoints.sql, values);
      const statuses = JSON.parse(rows[0].body).endpoints.map(({ status }: { status: string }) => status);
      expect(statuses).to.have.length(500).and.include("active");
    });
    expect(listReads).to.be.within(500, 510);
  });
});
