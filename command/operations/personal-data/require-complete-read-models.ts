import { BACKWARDS, END, type EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { isCatalogStream } from "../../../shared/domain/events/catalog.ts";
import { readWithin } from "../../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { waitForReadModels } from "./erase-person.ts";

/** Maximum number of events to search for the last event of the catalog. */
const MAX_READ_EVENTS = 100_000;

/** Time limit for this search. Milliseconds. */
const READ_TIMEOUT_MS = 60_000;

/** Streams of these categories show that a person has visited a clinic. */
const VISIT_STREAM_PATTERN = "^(appointment|queueTicket|animal)-";

/**
 * Requires that the read models contain all events that the log contains now. Otherwise they may lack a recent visit,
 * and an erasure cannot be undone.
 *
 * @throws {ReadModelsBehindError} if the read models do not reach the end of the log in time
 * @throws {DomainError} `read_models_incomplete` if a stream with visits is parked, or the end of the log is not found
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

/**
 * Reads the position of the last event of a catalog stream. Other programs may have written later events.
 *
 * @returns -1n if the log has no such event
 * @throws {DomainError} `read_models_incomplete` if the last {@link MAX_READ_EVENTS} events contain none
 */
async function readLastPosition(client: EventStoreDBClient): Promise<bigint> {
  let readCount = 0;
  const lastEvents = client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: MAX_READ_EVENTS });
  for await (const { event } of readWithin(READ_TIMEOUT_MS, lastEvents)) {
    if (event && isCatalogStream(event.streamId)) return event.position.commit;
    readCount += 1;
  }
  if (readCount < MAX_READ_EVENTS) return -1n;
  const problem = `the last ${MAX_READ_EVENTS} events of the log belong to other programs, so the end cannot be found`;
  throw new DomainError("read_models_incomplete", problem);
}
