import { randomUUID } from "node:crypto";
import { Readable } from "node:stream";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { findLostRows } from "../../../projection/adoption/lost-webhook-state.ts";
import { useMigratedDatabase } from "../../support/migrated-database.ts";

describe("the search for lost deliveries", () => {
  const database = useMigratedDatabase();

  /** Inserts deliveries. Groups of 700 deliveries are due at the same time. */
  const insertDeliveries = (endpointId: string, count: number, status: string, attemptCount: number) =>
    database.pool.query(
      `WITH added AS (
         INSERT INTO webhooks.delivery (delivery_id, endpoint_id, clinic_id, application_id, environment, event_id,
           event_type, event_stream, event_revision, status, attempt_count, cause_id, correlation_id, next_attempt_at,
           created_at, updated_at)
         SELECT gen_random_uuid(), $1, $1, $1, 'production', gen_random_uuid(), 'appointment.created', 'appointment-1',
                0, $3, $4, $1, $1, now() + n / 700 * interval '1 second', now(), now()
           FROM generate_series(1, $2::integer) n
         RETURNING *)
       INSERT INTO webhooks.pending_delivery (delivery_id, endpoint_id, body, next_attempt_at, round_attempt_count,
         attempt_count)
       SELECT delivery_id, endpoint_id, '{}', next_attempt_at, attempt_count, attempt_count FROM added
        WHERE status = 'pending'`,
      [endpointId, count, status, attemptCount],
    );

  it("the search for lost deliveries reads several pages and finds each pending delivery and retry once", async () => {
    const [firstEndpointId, secondEndpointId] = [randomUUID(), randomUUID()];
    await insertDeliveries(firstEndpointId, 1_500, "pending", 0);
    await insertDeliveries(firstEndpointId, 1_200, "pending", 2);
    await insertDeliveries(secondEndpointId, 800, "pending", 0);
    await insertDeliveries(secondEndpointId, 300, "failed", 3);
    const emptyLog = { readStream: () => Readable.from([]) } as unknown as EventStoreDBClient;
    const { deliveryIds, outboxEventIds } = await findLostRows(emptyLog, database.pool, new AbortController().signal);
    const { rows } = await database.pool.query("SELECT delivery_id FROM webhooks.delivery WHERE status = 'pending'");
    expect(deliveryIds.toSorted()).to.deep.equal(rows.map(({ delivery_id }) => delivery_id).sort());
    expect(outboxEventIds).to.deep.equal([]);
  });
});
