import type { EventStoreDBClient, RecordedEvent as StoredEvent } from "@eventstore/db-client";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { readEventAt, readStoredEvents, readWithin } from "../../../shared/eventstore/read-log.ts";
import { concernsOneStream } from "../../../shared/eventstore/stream-failure.ts";
import { forEachConcurrently } from "../../../shared/runtime/work.ts";
import { type AuditEvent, type LogEvent, toLogEvent } from "../log/audit-event.ts";
import type { AuditIndex, RowQuery, RowReference } from "./audit-index.ts";
import { toKey } from "./index-keys.ts";

/** The audit index, which finds events, and a client of the event log, which contains them. */
export interface IndexedLog {
  client: EventStoreDBClient;
  index: AuditIndex;
}

export interface IndexedEvent extends LogEvent {
  row: RowReference;
}

/** `problem` of an event that is in the index, but not in the log, because its stream was deleted. */
export const MISSING_IN_LOG = "missing_in_log";

/** `problem` of an event that is in the index, but that the log refuses to return. */
export const UNREADABLE_IN_LOG = "unreadable_in_log";

/** Default number of events per page. Small pages save memory if a reader stops early. */
const PAGE_SIZE = 200;

/**
 * Yields the events that match a query, page by page. A slow reader occupies no database connection between pages.
 *
 * @param limit maximum number of events; undefined for all
 * @param maxPageSize maximum number of events per page; smaller pages suit a caller that may stop early
 * @throws {LogUnavailableError}
 * @throws the error of the database
 */
export async function* readIndexedEvents(
  log: IndexedLog,
  query: RowQuery,
  limit = Number.POSITIVE_INFINITY,
  maxPageSize = PAGE_SIZE,
): AsyncGenerator<IndexedEvent, void> {
  let page = query;
  for (let rest = limit; rest > 0; ) {
    const pageSize = Math.min(maxPageSize, rest);
    const rows = await log.index.find(page, pageSize);
    yield* await readRows(log, rows);
    const last = rows.at(-1);
    if (!last || rows.length < pageSize) return;
    rest -= rows.length;
    page = query.isNewestFirst ? { ...query, before: last.position } : { ...query, after: last.position };
  }
}

/** Reads the events of index rows from the log, in the same order. */
async function readRows({ client, index }: IndexedLog, rows: readonly RowReference[]): Promise<IndexedEvent[]> {
  const [first, last] = [rows[0], rows.at(-1)].map((row) => row?.position).sort((a = 0n, b = 0n) => (a < b ? -1 : 1));
  if (first === undefined || last === undefined) return [];
  const maximum = rows.length * MAX_RANGE_FACTOR;
  const isDense = rows.length > 1 && (await index.countBetween(first, last, maximum)) < maximum;
  const events: FoundEvents = isDense ? await readRange(client, rows, first, last, maximum) : new Map();
  const otherRows = rows.filter(({ position }) => !events.has(position));
  await readRuns(client, otherRows, events);
  return rows.map((row) => {
    const event = events.get(row.position);
    const problem = event === UNREADABLE_IN_LOG ? UNREADABLE_IN_LOG : MISSING_IN_LOG;
    if (!event || event === UNREADABLE_IN_LOG || toKey(event.id) !== row.eventId)
      return { row, auditEvent: describeRow(row, problem), catalogEvent: undefined };
    return { row, ...toLogEvent(event, row.position) };
  });
}

/** Maximum ratio of all events to needed events in a range of the log that is read with one call. */
const MAX_RANGE_FACTOR = 8;

type FoundEvents = Map<bigint, StoredEvent | typeof UNREADABLE_IN_LOG>;

const RANGE_TIMEOUT_MS = 10_000;

/** Reads a part of the log. Ends after `maximum` events, because the index does not count the log's own events. */
async function readRange(
  client: EventStoreDBClient,
  rows: readonly RowReference[],
  first: bigint,
  last: bigint,
  maximum: number,
): Promise<FoundEvents> {
  const positions = new Set(rows.map(({ position }) => position));
  const found: FoundEvents = new Map();
  const events = client.readAll({ fromPosition: { commit: first, prepare: first }, maxCount: maximum });
  for await (const { event, commitPosition } of readWithin(RANGE_TIMEOUT_MS, events)) {
    const position = commitPosition ?? event?.position.commit ?? 0n;
    if (event && positions.has(position)) found.set(position, event);
    if (position >= last) break;
  }
  return found;
}

const MAX_RUN = 50;

/** Reads the events of rows stream by stream. One call reads up to 50 consecutive revisions. */
async function readRuns(client: EventStoreDBClient, rows: readonly RowReference[], found: FoundEvents): Promise<void> {
  const runs: RowReference[][] = [];
  for (const row of [...rows].sort(compareRevisions)) {
    const run = runs.at(-1);
    const last = run?.at(-1);
    if (run && run.length < MAX_RUN && last?.stream === row.stream && last.revision + 1n === row.revision)
      run.push(row);
    else runs.push([row]);
  }
  await forEachConcurrently(runs, (run) => readRun(client, run, found));
}

function compareRevisions(left: RowReference, right: RowReference): number {
  if (left.stream !== right.stream) return left.stream < right.stream ? -1 : 1;
  return Number(left.revision - right.revision);
}

async function readRun(client: EventStoreDBClient, run: readonly RowReference[], found: FoundEvents): Promise<void> {
  const [first] = run;
  if (!first) return;
  try {
    const options = { fromRevision: first.revision, maxCount: run.length };
    const events = new Map(
      (await readStoredEvents(client, first.stream, options)).map((event) => [event.revision, event]),
    );
    for (const { position, revision } of run) {
      // The log still has the events of a deleted stream until they are scavenged.
      const event = events.get(revision) ?? (await readEventAt(client, position));
      if (event) found.set(position, event);
    }
  } catch (error) {
    const log = createEventLog(client);
    if (!(await concernsOneStream(log, error))) throw error;
    // The rights of a stream do not apply to a read of the whole log.
    for (const { position } of run) {
      const event = await readEventAt(client, position).catch(
        async (eventError: unknown): Promise<typeof UNREADABLE_IN_LOG> => {
          if (await concernsOneStream(log, eventError)) return UNREADABLE_IN_LOG;
          throw eventError;
        },
      );
      if (event) found.set(position, event);
    }
  }
}

/** Describes an event that the log does not return, with the facts in its index row. */
function describeRow(row: RowReference, problem: string): AuditEvent {
  const { position, stream, revision, eventId: id, type, storedAt, occurredAt, clinics } = row;
  const [actorType, ...actorId] = row.actor?.split(":") ?? [];
  return {
    position: String(position),
    stream,
    revision: Number(revision),
    id,
    type,
    storedAt: storedAt as AuditEvent["storedAt"],
    occurredAt: occurredAt as AuditEvent["occurredAt"],
    actor: actorType === undefined ? null : { type: actorType, id: actorId.join(":") },
    clinicId: clinics[0] ?? null,
    environment: null,
    correlationId: null,
    causationId: null,
    schemaVersion: null,
    data: null,
    problem,
  };
}
