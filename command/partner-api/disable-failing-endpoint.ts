import type pg from "pg";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { isPostgresUnavailable } from "../../shared/runtime/failures.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { appendDerivedEvent, type DerivedEvent, SELECT_FAILURES_SQL } from "../../shared/webhooks/derived-event.ts";

/**
 * Records that an endpoint's failures have disabled it, if the log does not contain this yet. Otherwise, the webhooks role
 * would record it after a command that enables the endpoint, and so disable the endpoint again. While Postgres is
 * unavailable, records nothing.
 *
 * @throws {LogUnavailableError}
 */
export type DisableFailingEndpoint = (endpointId: string) => Promise<void>;

export function createFailingEndpointDisabler(pool: pg.Pool, log: EventLog, logger: Logger): DisableFailingEndpoint {
  return async (endpointId) => {
    const text = `${SELECT_FAILURES_SQL} WHERE endpoint_id = $1 AND is_disabled`;
    const query = { name: "disabled endpoint", text, values: [endpointId] };
    const { rows } = await pool.query<DerivedEvent>(query).catch((error: unknown) => {
      if (!isPostgresUnavailable(error)) throw error;
      logger.warn({ error, endpointId }, "a command is decided without the failures of the endpoint");
      return { rows: [] };
    });
    for (const row of rows) await appendDerivedEvent(log, row);
  };
}
