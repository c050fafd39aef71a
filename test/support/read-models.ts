import { randomUUID } from "node:crypto";
import pg from "pg";
import { applyBatch } from "../../projection/engine/apply-batch.ts";
import type { QuarantinedStream } from "../../projection/quarantine/quarantined-streams.ts";
import { readModels } from "../../projection/read-models/all.ts";
import type { CatalogEvent } from "../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import { parseStoredEvent } from "../../shared/domain/events/stored-event.ts";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { createDatabaseWithReadModels } from "./migrated-database.ts";
import { releaseLater } from "./resources.ts";
import type { TestDatabase } from "./stack.ts";
import { createStoredMetadata, findStream } from "./stored-metadata.ts";

/** An event, its time, and the data key of its personal data. */
export type GivenEvent = CatalogEvent & { at?: string; dataKeyId?: string };

/** A database with migrations and read models, to which tests apply events directly, without an event log. */
export interface ReadModelDatabase extends TestDatabase {
  /** Applies events to the read models, as the projection does. */
  given(...events: GivenEvent[]): Promise<void>;
  /** Quarantines a stream, as the projection does. */
  quarantine(stream: string): Promise<void>;
  /** Pool with the rights of the database's owner. */
  admin: pg.Pool;
  close(): Promise<void>;
}

/** Time of events without `at`. */
const DEFAULT_EVENT_TIME = "2026-03-01T08:00:00.000Z";

/** Creates a database with migrations and empty read models. */
export async function createReadModelDatabase(): Promise<ReadModelDatabase> {
  const database = await createDatabaseWithReadModels();
  // The projection writes with a pool of its own kind, which returns dates and numbers in other types.
  const pool = createPool({
    ...{ url: database.urls.projection, applicationName: "test", size: 1 },
    ...{ connectTimeoutMs: 60_000, statementTimeoutMs: 30_000 },
    logger: createLogger("test", "silent"),
  });
  const admin = new pg.Pool({ connectionString: database.urls.projection, max: 2 });
  // Dropping the database closes idle connections, which then emit an error.
  admin.on("error", () => undefined);
  let position = BEFORE_FIRST_EVENT;
  const nextRevisions = new Map<string, bigint>();
  const apply = async (events: readonly GivenEvent[], skippedEvents?: ReadonlyMap<string, QuarantinedStream>) => {
    const recordedEvents = events.map((event, index) => {
      const stream = findStream(event) ?? "";
      const revision = nextRevisions.get(stream) ?? 0n;
      nextRevisions.set(stream, revision + 1n);
      return toRecordedEvent(event, { stream, revision, position: position + BigInt(index) + 1n });
    });
    const client = await pool.connect();
    const endPosition = position + BigInt(events.length || 1);
    const newCheckpoint = { position: endPosition, eventId: recordedEvents.at(-1)?.id ?? randomUUID() };
    const batch = {
      events: recordedEvents,
      fromPosition: position,
      newCheckpoint,
      ...(skippedEvents && { skippedEvents }),
    };
    const tables = { client, schema: READ_MODEL_SCHEMA, models: readModels };
    await applyBatch(tables, batch).finally(() => client.release());
    position = endPosition;
  };
  return {
    ...database,
    admin,
    given: (...events) => apply(events),
    quarantine(stream) {
      const skippedEvents = {
        revision: 1n,
        position: position + 1n,
        eventType: "Unknown",
        cause: "unknown",
        clinicId: null,
        since: DEFAULT_EVENT_TIME,
        events: 1n,
      };
      return apply([], new Map([[stream, skippedEvents]]));
    },
    close: releaseLater(async () => {
      await pool.end();
      await admin.end();
      await database.drop();
    }),
  };
}

/** Creates a recorded event. Validates it with the catalog, so that tests cannot use invalid events. */
function toRecordedEvent(
  { at, dataKeyId, ...event }: GivenEvent,
  location: Pick<RecordedEvent, "stream" | "revision" | "position">,
): RecordedEvent {
  const metadata = { ...createStoredMetadata(event), occurredAt: at ?? DEFAULT_EVENT_TIME };
  const parsedEvent = parseStoredEvent({ ...event, streamId: location.stream, metadata });
  const keyMember = dataKeyId === undefined ? {} : { dataKeyId };
  return { ...parsedEvent, ...keyMember, ...location, id: randomUUID() };
}
