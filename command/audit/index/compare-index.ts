import type pg from "pg";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/read-log.ts";
import { type AuditEvent, toAuditEvent } from "../log/audit-event.ts";
import { isOfLog, type ScanProgress, scanLog } from "../log/scan.ts";
import { computeRoot, TreeEdge } from "../tree/merkle-tree.ts";
import { IndexDamagedError } from "./audit-index.ts";
import { type IndexRow, toEventFacts } from "./index-row.ts";
import { CheckpointMovedError, completeRows, readIndexCheckpoint, toTableRows } from "./index-store.ts";
import type { IndexedLog } from "./read-rows.ts";

export interface CompareOptions extends IndexedLog {
  pool: pg.Pool;
  signal: AbortSignal;
  onProgress?: ((progress: ScanProgress) => void) | undefined;
}

/** State of the index up to which its rows equal those that the log yields. */
export interface ComparedState {
  position: bigint;
  leafCount: number;
  /** Position of the last leaf; null without leaves. */
  leafPosition: bigint | null;
  root: Buffer;
}

const BATCH_SIZE = 1_000;

/**
 * Reads the events since the last comparison from the log, derives their rows again, and compares them with the rows of
 * the index. An event that the log no longer has is no difference if it is not a leaf, because only other programs
 * delete events.
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
  const edge = await TreeEdge.read(index.readHashes, start.leafCount);
  let { position: comparedPosition } = start;
  let batch: AuditEvent[] = [];
  const compareBatch = async (position: bigint) => {
    const rows = await completeRows(pool, "audit", batch.map(toEventFacts), comparedPosition);
    await compareRows(pool, rows, { after: comparedPosition, to: position, edge });
    const leafCount = edge.size;
    await pool.query({
      name: "audit index compared",
      text: `UPDATE audit.checkpoint SET compared_position = $2, compared_leaf_count = $3 WHERE compared_position = $1`,
      values: [comparedPosition, position, leafCount],
    });
    [comparedPosition, batch] = [position, []];
  };
  const after = start.position === BEFORE_FIRST_EVENT ? undefined : start.position;
  for await (const { event, position } of scanLog({ client, after, endPosition, signal, onProgress })) {
    if (isOfLog(event)) continue;
    batch.push(toAuditEvent(event, position));
    if (batch.length >= BATCH_SIZE) await compareBatch(position);
  }
  if (signal.aborted) return undefined;
  if (comparedPosition < endPosition) await compareBatch(endPosition);
  const root = edge.computeRoot();
  if (edge.size > 0 && !root.equals(await computeRoot(index.readHashes, edge.size)))
    throw new IndexDamagedError(`The audit index has another root than the log for ${edge.size} leaves.`);
  if ((await readIndexCheckpoint(pool)).tableId !== tableId) throw new CheckpointMovedError();
  if (isWhole) await pool.query("UPDATE audit.checkpoint SET verified_at = now()");
  return { position: comparedPosition, leafCount: edge.size, leafPosition, root };
}

/** Parameters: $1 and $2 are the positions after and up to which the rows are compared, $3 to $6 are the rows. */
const COMPARE_SQL = `
  WITH expected AS (SELECT * FROM json_populate_recordset(NULL::audit.event, $3)),
  actual AS (SELECT * FROM audit.event WHERE position > $1 AND position <= $2)
  (SELECT coalesce(e.position, a.position) AS position, coalesce(e.stream, a.stream) AS stream,
         CASE WHEN a.position IS NULL THEN 'is missing in the index'
              WHEN e.position IS NULL THEN 'is missing in the log' ELSE 'differs from the log' END AS problem
    FROM expected e FULL JOIN actual a ON a.position = e.position
   WHERE e IS DISTINCT FROM a AND (e.position IS NOT NULL OR a.leaf_number IS NOT NULL)
   ORDER BY 1 LIMIT 1)
   UNION ALL
  SELECT position, NULL, 'is not found under all its subjects' FROM json_populate_recordset(NULL::audit.subject, $4) s
   WHERE NOT EXISTS (SELECT FROM audit.subject i WHERE i.subject = s.subject AND i.position = s.position)
   UNION ALL
  SELECT position, NULL, 'is not known as the first of its object'
    FROM json_populate_recordset(NULL::audit.first_event, $5) f
   WHERE NOT EXISTS (SELECT FROM audit.first_event i WHERE i.key = f.key AND i.position <= f.position)
   UNION ALL
  SELECT $2, NULL, 'or one before it has a wrong node of the tree'
    FROM json_populate_recordset(NULL::audit.node, $6) n
   WHERE NOT EXISTS (SELECT FROM audit.node i WHERE i.level = n.level AND i.number = n.number AND i.hash = n.hash)
   LIMIT 1`;

/** @throws {IndexDamagedError} */
async function compareRows(
  pool: pg.Pool,
  rows: readonly IndexRow[],
  { after, to, edge }: { after: bigint; to: bigint; edge: TreeEdge },
): Promise<void> {
  const leafCount = edge.size;
  const nodes = rows.flatMap(({ facts }) => (facts.leafHash ? edge.append(facts.leafHash) : []));
  const { rows: differences } = await pool.query<{ position: bigint; stream: string | null; problem: string }>({
    name: "audit index compare",
    text: COMPARE_SQL,
    values: [after, to, ...toTableRows(rows, leafCount, nodes)],
  });
  const [difference] = differences;
  if (!difference) return;
  const { position, stream, problem } = difference;
  const streamText = stream === null ? "" : ` of stream ${stream}`;
  throw new IndexDamagedError(`The event${streamText} at position ${position} ${problem}.`);
}
