import { BACKWARDS, END, type EventStoreDBClient, type ReadPosition } from "@eventstore/db-client";
import type pg from "pg";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { isCatalogStream } from "../../../shared/domain/events/catalog.ts";
import { readWithin } from "../../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { waitForReadModels } from "./erase-person.ts";

/** Default maximum number of events to search for the last event of the catalog. */
const MAX_READ_EVENTS = 100_000;

const PAGE_SIZE = 500;

const PAGE_TIMEOUT_MS = 10_000;

/** Streams with visits and retention rules. The stream of a customer concerns only this customer. */
const REQUIRED_STREAM_PATTERN = "^(appointment|queueTicket|animal|clinic)-";

/**
 * Requires that the read models contain all events that the log contains now, as far as they concern a clinic. Otherwise
 * they may lack a recent visit or a longer retention period, and an erasure cannot be undone.
 *
 * @throws {ReadModelsBehindError} if the read models do not reach the end of the log in time
 * @throws {DomainError} `read_models_incomplete` if a stream of the clinic, or of an unknown clinic, is quarantined
 * @throws {LogUnavailableError}
 */
export async function requireCompleteReadModels(
  client: EventStoreDBClient,
  pool: pg.Pool,
  clinicId: string,
): Promise<void> {
  await waitForLogEnd(client, pool);
  const { rows } = await pool.query<{ stream: string }>(
    `SELECT stream FROM ${READ_MODEL_SCHEMA}.quarantined_stream
      WHERE stream ~ $1 AND COALESCE(clinic_id::text, $2) = $2 AND (stream = 'clinic-' || $2 OR stream !~ '^clinic-')
      LIMIT 1`,
    [REQUIRED_STREAM_PATTERN, clinicId],
  );
  if (!rows[0]) return;
  throw new DomainError(
    "read_models_incomplete",
    `stream ${rows[0].stream} is quarantined, so the read models may lack a visit or a rule; rebuild the read models first`,
  );
}

/**
 * Waits until the read models have reached the end of the log.
 *
 * @throws {ReadModelsBehindError} if the read models do not reach it in time
 * @throws {DomainError} `read_models_incomplete` if the end of the log is not found
 * @throws {LogUnavailableError}
 */
export async function waitForLogEnd(
  client: EventStoreDBClient,
  pool: pg.Pool,
  { maxReadEvents = MAX_READ_EVENTS, pageSize = PAGE_SIZE } = {},
): Promise<void> {
  await waitForReadModels(pool, await readLastPosition(client, maxReadEvents, pageSize));
}

/** Returns true for an event of the server, such as the deletion of a stream. The projectors do not receive these events. */
const isSystemEvent = (type: string) => type.startsWith("$");

/**
 * Reads the position of the last event of a catalog stream. Other programs may have written later events.
 *
 * @returns -1n if the log has no such event
 * @throws {DomainError} `read_models_incomplete` if the last `maxReadEvents` events contain none
 */
async function readLastPosition(client: EventStoreDBClient, maxReadEvents: number, pageSize: number): Promise<bigint> {
  let fromPosition: ReadPosition = END;
  for (let readCount = 0; readCount < maxReadEvents; ) {
    const maxCount = Math.min(pageSize, maxReadEvents - readCount);
    const page = client.readAll({ direction: BACKWARDS, fromPosition, maxCount });
    let pageCount = 0;
    for await (const { event } of readWithin(PAGE_TIMEOUT_MS, page)) {
      pageCount += 1;
      if (!event) continue;
      fromPosition = event.position;
      if (isCatalogStream(event.streamId) && !isSystemEvent(event.type)) return event.position.commit;
    }
    if (pageCount < maxCount) return -1n;
    readCount += pageCount;
  }
  const problem = `the last ${maxReadEvents} events of the log belong to other programs, so the end cannot be found`;
  throw new DomainError("read_models_incomplete", problem);
}
