import { randomUUID } from "node:crypto";
import { expect } from "chai";
import pg from "pg";
import { addDeliveries, MAX_BATCH_SIZE } from "../../../projection/webhooks/match/add-deliveries.ts";
import { listWebhookEndpoints } from "../../../query-api/partner/webhook-endpoints.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { endpointRegistered } from "../../support/partner-events.ts";
import { setUpQueryApi } from "../../support/query-api.ts";
import { setUpCaller } from "./caller.ts";

const TABLE = `${READ_MODEL_SCHEMA}.webhook_endpoint`;

describe("20,000 revoked endpoints of an application", () => {
  const api = setUpQueryApi();
  const caller = setUpCaller(api);

  /** Returns the number of endpoints that the server has read from the table. */
  async function countReadEndpoints(): Promise<number> {
    const { rows } = await api.database.admin.query<{ count: number }>(
      `SELECT (seq_tup_read + idx_tup_fetch)::integer AS count, pg_stat_clear_snapshot()
         FROM pg_stat_user_tables WHERE relid = '${TABLE}'::regclass`,
    );
    return rows[0]?.count ?? Number.NaN;
  }

  it("are read neither for a list beyond its maximum, nor to find the receivers of an event", async () => {
    const { application, clinic } = caller;
    const endpointId = randomUUID();
    await api.given(endpointRegistered(application, clinic.clinicId, endpointId));
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
    const pool = new pg.Pool({ connectionString: api.database.urls.projection, max: 1 });
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
    await pool.end();
  });
});
