import { BACKWARDS, END, type EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { isCatalogStream } from "../../../shared/domain/events/catalog.ts";
import { toLogError } from "../../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { waitForReadModels } from "./erase-person.ts";

/** Streams of these categories show that a person has visited a clinic. */
const VISIT_STREAM_PATTERN = "^(appointment|queueTicket|animal)-";

/**
 * Requires that the read models contain all events that the log contains now. Otherwise they may lack a recent visit,
 * and an erasure cannot be undone.
 *
 * @throws {ReadModelsBehindError} if the read models do not reach the end of the log in time
 * @throws {DomainError} `read_models_incomplete` if a stream with visits is parked
 * @throws {LogUnavailableError}
 */
export async function requireCompleteReadModels(client: EventStoreDBClient, pool: pg.Pool): Promise<void> {
  await waitForReadModels(pool, await readLastPosition(client));
  const { rows } = await pool.query<{ stream: string }>(
    `SELECT stream FROM ${READ_MODEL_SCHEMA}.passed_over WHERE stream ~ $1 LIMIT 1`,
    [VISIT_STREAM_PATTERN],
  );
  if (!rows[0]) return;
  throw new DomainError(
    "read_models_incomplete",
    `stream ${rows[0].stream} is parked, so the read models may lack a visit; resume the stream first`,
  );
}

/** Reads the position of the last event of a catalog stream. @returns -1n if there is none */
async function readLastPosition(client: EventStoreDBClient): Promise<bigint> {
  try {
    for await (const { event } of client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 100_000 })) {
      if (event && isCatalogStream(event.streamId)) return event.position.commit;
    }
    return -1n;
  } catch (error) {
    throw toLogError(error);
  }
}
