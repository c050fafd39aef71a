import type pg from "pg";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/read-log.ts";
import { divide } from "../../../shared/runtime/work.ts";
import { type AuditEvent, toAuditEvent } from "../log/audit-event.ts";
import { isOfLog, type ScanProgress, scanLog } from "../log/scan.ts";
import { computeRoot, TreeEdge } from "../tree/merkle-tree.ts";
import { IndexDamagedError } from "./audit-index.ts";
import { type IndexRow, toEventFacts } from "./index-row.ts";
import {
  CheckpointMovedError,
  completeRows,
  EVENT_COLUMN_NAMES,
  readIndexCheckpoint,
  selectEventParameters,
  toEventColumns,
  toKeyColumns,
} from "./index-store.ts";
import type { IndexedLog } from "./read-rows.ts";

export interface CompareOptions extends IndexedLog {
  pool: pg.Pool;
  signal: AbortSignal;
  onProgress?: ((progress: ScanProgress) => void) | undefined;
}

/** State of the index at the end of a successful comparison with the log. */
export interface ComparedState {
  position: bigint;
  leafCount: number;
  /** Position of the last leaf; null without leaves. */
  leafPosition: bigint | null;
  root: Buffer;
}

const BATCH_SIZE = 1_000;

/**
 * Compares the index with the log. Reads the events since the last comparison, derives their index rows, and compares
 * these rows with the stored rows. An event that the log lacks is a difference only if it is a leaf, because other
 * programs may delete their own events.
 *
 * @param isWhole if true, compares the whole index
 * @returns the state that was compared; undefined if the signal aborted first
 * @throws {IndexDamagedError} at the first difference
 * @throws {CheckpointMovedError} if a rebuild has replaced the index
 * @throws {LogUnavailableError}
 */
export async function compareIndex(options: CompareOptions, isWhole = false): Promise<ComparedState | undefined> {
  const { client, pool, index, signal, onProgress } = options;
  const checkpoint = await readIndexCheckpoint(pool);
  const { position: endPosition, leafPosition, tableId } = checkpoint;
  const start = isWhole
    ? { position: BEFORE_FIRST_EVENT, leafCount: 0 }
    : { position: checkpoint.comparedPosition, leafCount: checkpoint.comparedLeafCount };
  let { position: comparedPosition, leafCount } = start;
  let edge: TreeEdge | undefined = await TreeEdge.read(index.readHashes, leafCount);
  const batch: AuditEvent[] = [];
  const compare = async (events: readonly AuditEvent[]) => {
    const position = BigInt(events.at(-1)?.position ?? endPosition);
    const usedEdge = edge ?? (await TreeEdge.read(index.readHashes, leafCount));
    // A failed comparison leaves an edge that is not that of the compared rows.
    edge = undefined;
    const rows = await completeRows(pool, "audit", events.map(toEventFacts), comparedPosition);
    try {
      await compareRows(pool, rows, { after: comparedPosition, to: position, edge: usedEdge });
    } catch (error) {
      // No tree head is signed until these rows equal the log, also if they were compared before.
      if (error instanceof IndexDamagedError)
        await pool.query(
          "UPDATE audit.checkpoint SET compared_position = $1, compared_leaf_count = $2 WHERE compared_position > $1",
          [comparedPosition, leafCount],
        );
      throw error;
    }
    await pool.query({
      name: "audit index compared",
      text: `UPDATE audit.checkpoint SET compared_position = $2, compared_leaf_count = $3 WHERE compared_position = $1`,
      values: [comparedPosition, position, usedEdge.size],
    });
    [edge, comparedPosition, leafCount] = [usedEdge, position, usedEdge.size];
  };
  const compareBatch = () => divide(batch.splice(0), { handle: compare });
  const after = start.position === BEFORE_FIRST_EVENT ? undefined : start.position;
  for await (const { event, position } of scanLog({ client, after, endPosition, signal, onProgress })) {
    if (isOfLog(event)) continue;
    batch.push(toAuditEvent(event, position));
    if (batch.length >= BATCH_SIZE) await compareBatch();
  }
  if (signal.aborted) return undefined;
  await compareBatch();
  if (comparedPosition < endPosition) await compare([]);
  const root = edge.computeRoot();
  if (leafCount > 0 && !root.equals(await computeRoot(index.readHashes, leafCount)))
    throw new IndexDamagedError(`The audit index has another root than the log for ${leafCount} leaves.`);
  if ((await readIndexCheckpoint(pool)).tableId !== tableId) throw new CheckpointMovedError();
  return { position: comparedPosition, leafCount, leafPosition, root };
}

const COMPARE_SQL = `
  WITH expected AS (${selectEventParameters(3)}),
  actual AS (SELECT ${EVENT_COLUMN_NAMES} FROM audit.event WHERE position > $1 AND position <= $2)
  SELECT coalesce(e.position, a.position) AS position, coalesce(e.stream, a.stream) AS stream,
         CASE WHEN a.position IS NULL THEN 'is missing in the index'
              WHEN e.position IS NULL THEN 'is missing in the log' ELSE 'differs from the log' END AS problem
    FROM expected e FULL JOIN actual a ON a.position = e.position
   WHERE e IS DISTINCT FROM a AND (e.position IS NOT NULL OR a.leaf_number IS NOT NULL)
   ORDER BY 1 LIMIT 1`;

const MISSING_SQL = `
  SELECT position, 'is not found under all its subjects' AS problem
    FROM unnest($1::uuid[], $2::bigint[]) AS s (subject, position)
   WHERE NOT EXISTS (SELECT FROM audit.subject i WHERE i.subject = s.subject AND i.position = s.position)
   UNION ALL
  SELECT position, 'is not known as the first of its object' FROM unnest($3::uuid[], $4::bigint[]) AS f (key, position)
   WHERE NOT EXISTS (SELECT FROM audit.first_event i WHERE i.key = f.key AND i.position <= f.position)
   UNION ALL
  SELECT position, 'is wrongly known as the first of an object' FROM audit.first_event i
   WHERE position > $9 AND position <= $8
     AND NOT EXISTS (SELECT FROM unnest($3::uuid[], $4::bigint[]) AS f (key, position)
                      WHERE f.key = i.key AND f.position = i.position)
     AND NOT EXISTS (SELECT FROM audit.event e
                      WHERE e.position = i.position AND e.leaf_number IS NULL AND e.position <> ALL ($2))
   UNION ALL
  SELECT $8, 'or one before it has a wrong node of the tree' FROM unnest($5::smallint[], $6::bigint[], $7::bytea[]) AS n (level, number, hash)
   WHERE NOT EXISTS (SELECT FROM audit.node i WHERE i.level = n.level AND i.number = n.number AND i.hash = n.hash)
   LIMIT 1`;

/** @throws {IndexDamagedError} at the first difference between the rows and the index */
async function compareRows(
  pool: pg.Pool,
  rows: readonly IndexRow[],
  { after, to, edge }: { after: bigint; to: bigint; edge: TreeEdge },
): Promise<void> {
  const differences = await pool.query<{ position: bigint; stream: string; problem: string }>({
    name: "audit index compare",
    text: COMPARE_SQL,
    values: [after, to, ...toEventColumns(rows, BigInt(edge.size))],
  });
  const [difference] = differences.rows;
  if (difference) {
    const { position, stream, problem } = difference;
    throw new IndexDamagedError(`The event of stream ${stream} at position ${position} ${problem}.`);
  }
  const nodes = rows.flatMap(({ facts }) => (facts.leafHash ? edge.append(facts.leafHash) : []));
  const missing = await pool.query<{ position: bigint; problem: string }>({
    name: "audit index compare subjects",
    text: MISSING_SQL,
    values: [...toKeyColumns(rows, nodes), to, after],
  });
  const [first] = missing.rows;
  if (first)
    throw new IndexDamagedError(`The event at position ${first.position} ${first.problem} in the audit index.`);
}
