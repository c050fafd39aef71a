import type pg from "pg";
import { ServerUnavailableError } from "../../../shared/runtime/run-service.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import type { TreeEdge, TreeNode } from "../tree/merkle-tree.ts";
import { toPurposeKey } from "./index-keys.ts";
import { type EventFacts, type IndexRow, type Inheritance, toEventFacts, toIndexRow } from "./index-row.ts";

/** Schema of the live index, or of an index that a rebuild fills. */
export type IndexSchema = "audit" | "audit_next";

/** Position in the log up to which the index covers the events, and the last leaf of the tree. */
export interface IndexCheckpoint {
  schema: IndexSchema;
  /** `tableoid` of the checkpoint table. A rebuild changes it, but not the schema name. */
  tableId: number;
  position: bigint;
  /** Number of leaves; also the number of the next leaf. */
  leafCount: bigint;
  /** Log position of the last leaf; null without leaves. Identifies the log, together with `leafEventId`. */
  leafPosition: bigint | null;
  leafEventId: string | null;
  /** Log position up to which the index was compared with the log. Only a comparison changes it. */
  comparedPosition: bigint;
  comparedLeafCount: number;
  /** Time of the last comparison of the whole index, in milliseconds since 1970; null before the first. */
  verifiedAt: number | null;
}

/** Another process has moved the checkpoint, or the index was reset or rebuilt. */
export class CheckpointMovedError extends ServerUnavailableError {
  constructor() {
    super("Another process has filled, emptied or rebuilt the audit index in the meantime. Try again.");
  }
}

export async function readIndexCheckpoint(pool: pg.Pool, schema: IndexSchema = "audit"): Promise<IndexCheckpoint> {
  const { rows } = await pool.query<IndexCheckpoint>({
    name: `${schema} index checkpoint`,
    text: `SELECT '${schema}' AS schema, tableoid AS "tableId", position, leaf_count AS "leafCount",
                  leaf_position AS "leafPosition", leaf_event_id AS "leafEventId",
                  compared_position AS "comparedPosition", compared_leaf_count::float8 AS "comparedLeafCount",
                  extract(epoch FROM verified_at)::float8 * 1000 AS "verifiedAt"
             FROM ${schema}.checkpoint`,
  });
  if (!rows[0]) throw new Error("The audit index has no checkpoint.");
  return rows[0];
}

/**
 * Adds consecutive events to the index and moves the checkpoint, in one statement. If the call fails, discard the edge,
 * because it already contains the new leaves.
 *
 * @param edge edge of the tree at the checkpoint
 * @param events events after the checkpoint in log order, without the log's system events
 * @param position position of the last covered event, which may be a system event
 * @returns the new checkpoint
 * @throws {CheckpointMovedError}
 */
export async function addToIndex(
  pool: pg.Pool,
  checkpoint: IndexCheckpoint,
  edge: TreeEdge,
  events: readonly AuditEvent[],
  position: bigint,
): Promise<IndexCheckpoint> {
  const { schema } = checkpoint;
  const rows = await completeRows(pool, schema, events.map(toEventFacts), checkpoint.position);
  const leaves = rows.filter(({ facts }) => facts.leafHash);
  const nodes = leaves.flatMap(({ facts }) => edge.append(facts.leafHash as Buffer));
  const lastLeaf = leaves.at(-1)?.facts;
  const newCheckpoint: IndexCheckpoint = {
    ...checkpoint,
    position,
    leafCount: checkpoint.leafCount + BigInt(leaves.length),
    ...(lastLeaf && { leafPosition: BigInt(lastLeaf.event.position), leafEventId: lastLeaf.eventId }),
  };
  const { leafCount, leafPosition, leafEventId } = newCheckpoint;
  const { rows: moved } = await pool.query<{ moved: number }>({
    name: `add to ${schema} index`,
    text: createAddSql(schema),
    values: [
      ...[checkpoint.position, checkpoint.tableId, position, leafCount, leafPosition, leafEventId],
      ...toEventColumns(rows, checkpoint.leafCount),
      ...toKeyColumns(rows, nodes),
    ],
  });
  if (moved[0]?.moved !== 1) throw new CheckpointMovedError();
  return newCheckpoint;
}

const EVENT_COLUMNS = {
  position: "bigint",
  revision: "bigint",
  leaf_number: "bigint",
  event_id: "uuid",
  correlation_id: "uuid",
  causation_id: "uuid",
  leaf_hash: "bytea",
  stream: "text",
  type: "text",
  actor: "text",
  occurred_at: "text",
  stored_at: "text",
  clinics: "uuid[]",
  subjects: "uuid[]",
  origins: "uuid[]",
};

export const EVENT_COLUMN_NAMES = Object.keys(EVENT_COLUMNS).join(", ");
/**
 * Returns a SELECT statement that converts array parameters, one for each column, to rows for the event table.
 *
 * @param firstParameter number of the first parameter
 * @param from additional items of the FROM clause, with a comma at the end
 */
export function selectEventParameters(firstParameter: number, from = ""): string {
  // Postgres has no arrays of arrays with different lengths, so these are texts.
  const isArray = (type: string) => type.endsWith("[]");
  const values = Object.entries(EVENT_COLUMNS).map(([name, type]) =>
    type === "text" ? `${name} COLLATE "C" AS ${name}` : isArray(type) ? `${name}::${type} AS ${name}` : name,
  );
  const parameters = Object.values(EVENT_COLUMNS).map(
    (type, column) => `$${firstParameter + column}::${isArray(type) ? "text" : type}[]`,
  );
  return `SELECT ${values.join(", ")} FROM ${from} unnest(${parameters.join(", ")}) AS e (${EVENT_COLUMN_NAMES})`;
}

const FIRST_EVENT_PARAMETER = 7;
const NEXT_PARAMETER = FIRST_EVENT_PARAMETER + Object.keys(EVENT_COLUMNS).length;

/** Creates the SQL that adds rows. If another process has moved the checkpoint, it inserts nothing. */
const createAddSql = (schema: IndexSchema) => `
  WITH moved AS (
    UPDATE ${schema}.checkpoint SET position = $3, leaf_count = $4, leaf_position = $5, leaf_event_id = $6
     WHERE position = $1 AND tableoid = $2 RETURNING 1),
  events AS (
    INSERT INTO ${schema}.event (${EVENT_COLUMN_NAMES})
    ${selectEventParameters(FIRST_EVENT_PARAMETER, "moved,")}),
  subjects AS (
    INSERT INTO ${schema}.subject
    SELECT s.* FROM moved, unnest($${NEXT_PARAMETER}::uuid[], $${NEXT_PARAMETER + 1}::bigint[]) s),
  first_events AS (
    INSERT INTO ${schema}.first_event
    SELECT f.* FROM moved, unnest($${NEXT_PARAMETER + 2}::uuid[], $${NEXT_PARAMETER + 3}::bigint[]) f
    ON CONFLICT DO NOTHING),
  nodes AS (
    INSERT INTO ${schema}.node
    SELECT n.* FROM moved,
      unnest($${NEXT_PARAMETER + 4}::smallint[], $${NEXT_PARAMETER + 5}::bigint[], $${NEXT_PARAMETER + 6}::bytea[]) n)
  SELECT count(*)::integer AS moved FROM moved`;

/** Maximum length of a stored actor in characters. No query can contain a longer actor. */
const MAX_ACTOR_LENGTH = 300;

/** Converts rows to the parameters of {@link selectEventParameters}. */
export function toEventColumns(rows: readonly IndexRow[], firstLeafNumber: bigint): unknown[][] {
  let leafNumber = firstLeafNumber - 1n;
  const records = rows.map(({ facts, clinics, subjects, origins }) => {
    const { event, leafHash } = facts;
    if (leafHash) leafNumber += 1n;
    const { actor, correlationId } = event;
    return [
      ...[event.position, event.revision, leafHash && leafNumber],
      ...[facts.eventId, correlationId === null ? null : toPurposeKey("correlation", correlationId), facts.causationId],
      ...[leafHash, toText(event.stream), toText(event.type)],
      actor && toText(`${actor.type}:${actor.id}`.normalize().slice(0, MAX_ACTOR_LENGTH)),
      ...[event.occurredAt, event.storedAt],
      ...[clinics, subjects, origins].map((keys) => `{${keys.join()}}`),
    ];
  });
  return Object.keys(EVENT_COLUMNS).map((_, column) => records.map((record) => record[column]));
}

/** Returns array parameters for the other index tables: keys of events, keys of started objects, and tree nodes. */
export function toKeyColumns(rows: readonly IndexRow[], nodes: readonly TreeNode[]): unknown[][] {
  return [
    rows.flatMap(({ keys }) => keys),
    rows.flatMap(({ keys, facts }) => keys.map(() => facts.event.position)),
    rows.flatMap(({ facts }) => facts.startedKeys),
    rows.flatMap(({ facts }) => facts.startedKeys.map(() => facts.event.position)),
    ...[nodes.map(({ level }) => level), nodes.map(({ number }) => number), nodes.map(({ hash }) => hash)],
  ];
}

/** Replaces U+0000, which Postgres cannot store in text. */
function toText(text: string): string {
  return text.replaceAll("\u0000", "\ufffd");
}

/**
 * Converts the facts of consecutive events to index rows. The rows inherit subjects and origins from earlier rows of
 * the index, and from earlier events of the same call.
 *
 * @param lastPosition position of the last event before the given events
 */
export async function completeRows(
  pool: pg.Pool,
  schema: IndexSchema,
  facts: readonly EventFacts[],
  lastPosition: bigint,
): Promise<IndexRow[]> {
  const [objects, causes] = await Promise.all([
    findObjects(pool, schema, facts, lastPosition),
    findCauses(pool, schema, facts, lastPosition),
  ]);
  return facts.map((eventFacts) => {
    const row = toIndexRow(eventFacts, { objects, causes });
    for (const key of eventFacts.startedKeys) if (!objects.has(key)) objects.set(key, row);
    if (!causes.has(eventFacts.eventId)) causes.set(eventFacts.eventId, row);
    return row;
  });
}

type InheritanceMap<Name extends keyof Inheritance> =
  Inheritance[Name] extends ReadonlyMap<string, infer Value> ? Map<string, Value> : never;

async function findObjects(
  pool: pg.Pool,
  schema: IndexSchema,
  facts: readonly EventFacts[],
  lastPosition: bigint,
): Promise<InheritanceMap<"objects">> {
  const keys = new Set(facts.flatMap(({ objectKeys, startedKeys }) => [...objectKeys, ...startedKeys]));
  const { rows } = await pool.query<{ key: string; subjects: string[]; clinics: string[] }>({
    name: `${schema} index objects`,
    text: `SELECT key, subjects, clinics FROM unnest($1::uuid[]) AS k (key)
             JOIN ${schema}.first_event USING (key) JOIN ${schema}.event USING (position) WHERE position <= $2`,
    values: [[...keys], lastPosition],
  });
  return new Map(rows.map(({ key, ...object }) => [key, object]));
}

async function findCauses(
  pool: pg.Pool,
  schema: IndexSchema,
  facts: readonly EventFacts[],
  lastPosition: bigint,
): Promise<InheritanceMap<"causes">> {
  const ids = new Set(facts.flatMap(({ causationId }) => causationId ?? []));
  const { rows } = await pool.query<{ id: string; subjects: string[]; origins: string[] }>({
    name: `${schema} index causes`,
    text: `SELECT DISTINCT ON (event_id) event_id AS id, subjects, origins FROM unnest($1::uuid[]) AS i (event_id)
             JOIN ${schema}.event USING (event_id) WHERE position <= $2 ORDER BY event_id, position`,
    values: [[...ids], lastPosition],
  });
  return new Map(rows.map(({ id, ...cause }) => [id, cause]));
}
