import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { formatCommandLine } from "../../../shared/command-line/format-command-line.ts";
import { readEventAt, readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { createPositionWatch, type PositionWatch } from "../../../shared/postgres/read-model-position.ts";
import { StopError } from "../../../shared/runtime/failures.ts";
import { ServerUnavailableError } from "../../../shared/runtime/run-service.ts";
import type { ReadHashes } from "../tree/merkle-tree.ts";
import { toKey } from "./index-keys.ts";
import { type IndexCheckpoint, type IndexSchema, readIndexCheckpoint } from "./index-store.ts";

/** The index does not yet cover all events of the log. A later attempt can succeed. */
export class IndexBehindError extends ServerUnavailableError {
  /** Log position up to which the index contains the events. */
  readonly position: bigint;

  constructor(position: bigint, logEnd: bigint) {
    super(
      `The audit index covers the log up to position ${position} of ${logEnd}. The audit service fills it. Try again.`,
    );
    this.position = position;
  }
}

/** The index was built from a different event log, or the log is an older copy of the original log. */
export class DifferentLogError extends StopError {
  override readonly name = "DifferentLogError";

  /** @param reason part of the message, such as "the log ends at position 7" */
  constructor(reason: string) {
    super(
      `The event log is not the one that the audit index was built from: ${reason}. The log was replaced or restored from an older backup, or EVENTSTORE_URL is wrong. To recover, start the original log again. To continue with this log instead, run \`${formatCommandLine("projection rebuild --adopt-log")}\`. If the read models already belong to this log, run \`${formatCommandLine("audit rebuild-index")}\`.`,
    );
  }
}

/**
 * Checks that the index was built from the log. The log must contain the event of the index's last leaf, and must not
 * end before the checkpoint.
 *
 * @returns position of the last event in the log
 * @throws {DifferentLogError}
 * @throws {LogUnavailableError}
 */
export async function requireSameLog(
  client: EventStoreDBClient,
  { position, leafPosition, leafEventId }: IndexCheckpoint,
): Promise<bigint> {
  const [logEnd, event] = await Promise.all([
    readLogEnd(client),
    leafPosition === null ? undefined : readEventAt(client, leafPosition),
  ]);
  if (leafPosition !== null && (!event || toKey(event.id) !== leafEventId))
    throw new DifferentLogError(`the log does not hold event ${leafEventId} at position ${leafPosition}`);
  if (logEnd < position)
    throw new DifferentLogError(`the index covers position ${position}, but the log ends at position ${logEnd}`);
  return logEnd;
}

/** The index differs from the log, or its parts differ from each other. */
export class IndexDamagedError extends Error {
  override readonly name = "IndexDamagedError";
}

export interface IndexedLeaf {
  /** Number of the leaf in the tree, from 0. */
  number: number;
  position: bigint;
}

/**
 * Filter for events in the index. `after` and `before` are exclusive. Times are compared as text, in the format of
 * events.
 */
export interface RowQuery {
  /** Index keys. An event matches if the index contains it under one of these keys. */
  keys: readonly string[];
  /** Additional index keys. An event found only under such a key concerns the subject possibly, but not certainly. */
  possibleKeys?: readonly string[];
  after?: bigint | undefined;
  before?: bigint | undefined;
  isNewestFirst?: boolean;
  /** Start of the time range, inclusive. */
  from?: string | undefined;
  /** End of the time range, exclusive. */
  to?: string | undefined;
  by?: "occurred" | "stored";
  types?: readonly string[] | undefined;
  /** Actor of the events: `type:id`, or only the id, which matches actors of any type. */
  actor?: string | undefined;
  /**
   * Clinics that the reader may see; null for all events. An event matches if it names at least one clinic, and only
   * clinics in this list.
   */
  clinicIds: readonly string[] | null;
}

/** Place of an event in the log, with the facts that the index stores about the event. */
export interface RowReference {
  position: bigint;
  stream: string;
  revision: bigint;
  eventId: string;
  type: string;
  actor: string | null;
  occurredAt: string | null;
  storedAt: string;
  clinics: string[];
  /** False if the event was found only under `possibleKeys`. */
  isCertain: boolean;
}

/** Maximum time that a query waits for the index to cover the log. */
const WAIT_TIMEOUT_MS = 2_000;

const MAX_POSITION = 2n ** 63n - 1n;

const COLUMNS = `position, stream, revision, event_id AS "eventId", type, actor, occurred_at AS "occurredAt",
  stored_at AS "storedAt", clinics`;

/**
 * Creates the SQL that finds events by index keys. `OFFSET 0` makes Postgres read the events of a key one by one until
 * the limit is reached, regardless of table statistics.
 */
const createSql = (order: "ASC" | "DESC", time: string) => `
  SELECT * FROM (
    SELECT DISTINCT ON (r.position) r.*, k.is_certain AS "isCertain"
      FROM unnest($1::uuid[], $2::boolean[]) AS k (key, is_certain)
     CROSS JOIN LATERAL (
       SELECT e.* FROM (
         SELECT position AS row_position FROM audit.subject
          WHERE subject = k.key AND position > $3 AND position < $4 ORDER BY position ${order}) s
        CROSS JOIN LATERAL (
          SELECT ${COLUMNS}, ${time} AS time FROM audit.event WHERE position = s.row_position OFFSET 0) e
        WHERE ($6::uuid[] IS NULL OR (e.clinics <> '{}' AND e.clinics <@ $6))
          AND ($7::text IS NULL OR e.time >= $7 COLLATE "C") AND ($8::text IS NULL OR e.time < $8 COLLATE "C")
          AND ($9::text[] IS NULL OR e.type = ANY ($9))
          AND ($10::text IS NULL OR e.actor = $10 OR substr(e.actor, strpos(e.actor, ':') + 1) = $10)
        ORDER BY s.row_position ${order} LIMIT $5) r
     ORDER BY r.position ${order}, k.is_certain DESC) rows
   LIMIT $5`;

const TIME_COLUMNS = { occurred: "coalesce(occurred_at, stored_at)", stored: "stored_at" };

/** Finds events in the index. If a database statement fails, the methods throw the error of the database. */
export class AuditIndex {
  readonly #getPool: () => pg.Pool;
  readonly #schema: IndexSchema;
  readonly #watch: PositionWatch;

  /**
   * @param getPool called for each statement
   * @param schema schema that `readHashes` reads; all other methods read the live index
   */
  constructor(getPool: () => pg.Pool, schema: IndexSchema = "audit") {
    this.#getPool = getPool;
    this.#schema = schema;
    this.#watch = createPositionWatch(async () => (await readIndexCheckpoint(getPool())).position);
  }

  /**
   * Waits until the index covers all events that the log contains now.
   *
   * @returns position of the last event in the log
   * @throws {DifferentLogError} if the index was built from another log
   * @throws {IndexBehindError} if the index is still behind after two seconds
   * @throws {LogUnavailableError}
   */
  async awaitLogEnd(client: EventStoreDBClient): Promise<bigint> {
    const logEnd = await requireSameLog(client, await readIndexCheckpoint(this.#getPool()));
    if (await this.#watch.wait(logEnd, WAIT_TIMEOUT_MS)) return logEnd;
    throw new IndexBehindError((await readIndexCheckpoint(this.#getPool())).position, logEnd);
  }

  /** Finds events, sorted by log position in ascending or descending order. */
  async find(query: RowQuery, limit: number): Promise<RowReference[]> {
    const { keys, possibleKeys = [], isNewestFirst = false, by = "occurred" } = query;
    const { after = -1n, before = MAX_POSITION } = query;
    const { rows } = await this.#getPool().query<RowReference>({
      name: `audit index ${isNewestFirst} ${by}`,
      text: createSql(isNewestFirst ? "DESC" : "ASC", TIME_COLUMNS[by]),
      values: [
        ...[
          [...keys, ...possibleKeys],
          [...keys.map(() => true), ...possibleKeys.map(() => false)],
        ],
        ...[after, before, limit],
        ...[query.clinicIds, query.from, query.to, query.types, query.actor],
      ],
    });
    return rows;
  }

  /**
   * Summarizes the events with a key: their number, their clinics, and the ids of up to 1,000 of their streams.
   *
   * @param clinicIds clinics that the reader may see; null for all
   */
  async summarize(
    key: string,
    clinicIds: readonly string[] | null,
  ): Promise<{ eventCount: bigint; clinics: string[]; ids: string[] }> {
    const { rows } = await this.#getPool().query<{ eventCount: bigint; clinics: string[]; ids: string[] }>({
      name: "audit index summary",
      text: `
        WITH e AS (
          SELECT clinics, stream FROM audit.subject JOIN audit.event USING (position)
           WHERE subject = $1 AND ($2::uuid[] IS NULL OR (clinics <> '{}' AND clinics <@ $2)))
        SELECT (SELECT count(*) FROM e) AS "eventCount",
               ARRAY(SELECT DISTINCT unnest(clinics) FROM e) AS clinics,
               ARRAY(SELECT DISTINCT substr(stream, strpos(stream, '-') + 1) FROM e LIMIT 1000) AS ids`,
      values: [key, clinicIds],
    });
    return rows[0] ?? { eventCount: 0n, clinics: [], ids: [] };
  }

  /**
   * Reads hashes of the audit tree: of leaves at level 0, and of inner nodes at higher levels.
   *
   * @throws {IndexDamagedError} if the index lacks one of the hashes
   */
  readonly readHashes: ReadHashes = async (level, first, count) => {
    const { rows } = await this.#getPool().query<{ hash: Buffer }>({
      name: `${this.#schema} index hashes ${level === 0}`,
      text:
        level === 0
          ? `SELECT leaf_hash AS hash FROM ${this.#schema}.event
              WHERE leaf_number >= $1 AND leaf_number < $2 AND $3::smallint IS NOT NULL ORDER BY leaf_number`
          : `SELECT hash FROM ${this.#schema}.node WHERE level = $3 AND number >= $1 AND number < $2 ORDER BY number`,
      values: [first, first + count, level],
    });
    if (rows.length !== count)
      throw new IndexDamagedError(`The audit index lacks hashes of the tree at level ${level}.`);
    return rows.map(({ hash }) => hash);
  };

  /**
   * Finds a leaf of the tree.
   *
   * @param search id or position of the event
   */
  async findLeaf(search: { eventId?: string; position?: bigint }): Promise<IndexedLeaf | undefined> {
    const { eventId, position } = search;
    const { rows } = await this.#getPool().query<IndexedLeaf>({
      name: "audit index leaf",
      text: `SELECT leaf_number::float8 AS number, position FROM audit.event
              WHERE leaf_number IS NOT NULL AND (event_id = $1 OR position = $2)
              ORDER BY position LIMIT 1`,
      values: [eventId === undefined ? null : toKey(eventId), position],
    });
    return rows[0];
  }

  /** Returns true if the tree has a leaf at or after `firstNumber` whose event is not in the stream. */
  async hasLeafOutside(stream: string, firstNumber: number): Promise<boolean> {
    const { rowCount } = await this.#getPool().query({
      name: "audit index leaf outside",
      text: "SELECT FROM audit.event WHERE leaf_number >= $1 AND stream <> $2 LIMIT 1",
      values: [firstNumber, stream],
    });
    return rowCount === 1;
  }

  /** Lists the streams of all auditors. */
  async listAuditorStreams(): Promise<string[]> {
    const { rows } = await this.#getPool().query<{ stream: string }>({
      name: "audit index auditors",
      text: "SELECT DISTINCT stream FROM audit.event WHERE type = 'AuditorRegistered' AND stream LIKE 'auditor-%'",
    });
    return rows.map(({ stream }) => stream);
  }

  /** Counts the events between two log positions, both inclusive. Stops counting at the maximum. */
  async countBetween(first: bigint, last: bigint, maximum: number): Promise<number> {
    const { rows } = await this.#getPool().query<{ count: number }>({
      name: "audit index count",
      text: `SELECT count(*)::integer AS count
               FROM (SELECT FROM audit.event WHERE position BETWEEN $1 AND $2 LIMIT $3) e`,
      values: [first, last, maximum],
    });
    return rows[0]?.count ?? 0;
  }
}
