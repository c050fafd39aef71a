import type pg from "pg";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { addFacts, createExpiryReportedFact, type ExpiringSecret } from "../outbox/facts.ts";
import { inTransaction } from "../outbox/transaction.ts";

/** Time before the expiry of a former secret at which the expiry is reported. Milliseconds. */
const REPORT_BEFORE_MS = 6 * 60 * 60 * 1_000;

/** Maximum number of secrets that one call reports. */
const MAX_BATCH_SIZE = 1_000;

/**
 * Adds a `WebhookSecretExpiryReported` event to the outbox for each former secret that expires within six hours and was
 * not reported before.
 *
 * @param now milliseconds since 1970
 * @returns number of events that were added to the outbox
 */
export function reportExpiringSecrets(pool: pg.Pool, now: number): Promise<number> {
  return inTransaction(pool, async (client) => {
    const { rows } = await client.query<ExpiringSecret>({
      name: "expiring secrets",
      text: `SELECT e.endpoint_id AS "endpointId", e.clinic_id AS "clinicId", e.environment,
                    former->>'secretId' AS "secretId", former->>'expiresAt' AS "expiresAt",
                    former->>'rotationId' AS "rotationId", former->>'correlationId' AS "correlationId"
               FROM ${READ_MODEL_SCHEMA}.webhook_secret s
               JOIN ${READ_MODEL_SCHEMA}.webhook_endpoint e USING (endpoint_id)
              CROSS JOIN LATERAL jsonb_array_elements(s.former_secrets) former
              WHERE former->>'isReported' = 'false' AND former->>'expiresAt' > $1 AND former->>'expiresAt' <= $2
              LIMIT ${MAX_BATCH_SIZE}`,
      values: [toInstant(now), toInstant(now + REPORT_BEFORE_MS)],
    });
    await addFacts(
      client,
      rows.map((row) => createExpiryReportedFact(row, now)),
    );
    return rows.length;
  });
}
