import type pg from "pg";
import { formatCommandLine } from "../../../shared/command-line/format-command-line.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { inTransaction } from "../../../shared/postgres/pool.ts";
import { pause } from "../../../shared/runtime/backoff.ts";
import { isLockTimeout } from "../../../shared/runtime/failures.ts";
import type { ScanProgress } from "../log/scan.ts";
import type { PublishOptions } from "../tree/publish-tree-head.ts";
import { requirePublishedTree } from "../tree/published-heads.ts";
import { AuditIndex } from "./audit-index.ts";
import { type IndexCheckpoint, readIndexCheckpoint } from "./index-store.ts";
import { fillIndex } from "./run-index.ts";

interface RebuildOptions extends Pick<PublishOptions, "client" | "signer"> {
  /** Connection pool of the database role that owns the tables. */
  pool: pg.Pool;
  /** If true, the tree of the new index may differ from the published tree heads. */
  isNewTree: boolean;
  onProgress(progress: ScanProgress): void;
  /** Called once if the rebuild must wait for a statement that still uses the live index. */
  onBlocked(): Promise<void>;
}

/**
 * Database rights of the audit service, by table. The tables are in the order in which {@link fillIndex} locks them.
 */
const TABLES = {
  checkpoint: "SELECT, UPDATE",
  event: "SELECT, INSERT",
  subject: "SELECT, INSERT",
  first_event: "SELECT, INSERT",
  node: "SELECT, INSERT",
};

const forEachTable = (createSql: (table: string, rights: string) => string) =>
  Object.entries(TABLES)
    .map(([table, rights]) => createSql(table, rights))
    .join(" ");

const listTables = (schema: string) =>
  Object.keys(TABLES)
    .map((table) => `${schema}.${table}`)
    .join(", ");

/** Creates the tables of the new index. Its statements run in one transaction, because they are one `query` call. */
const CREATE_SQL = `
  DROP SCHEMA IF EXISTS audit_next CASCADE;
  CREATE SCHEMA audit_next;
  ${forEachTable(
    (table, rights) => `CREATE TABLE audit_next.${table} (LIKE audit.${table} INCLUDING ALL);
    GRANT ${rights} ON audit_next.${table} TO clinic_audit;`,
  )}
  INSERT INTO audit_next.checkpoint (position, leaf_count) VALUES (-1, 0)`;

const SWITCH_SQL = `
  DROP TABLE ${listTables("audit")};
  ${forEachTable((table) => `ALTER TABLE audit_next.${table} SET SCHEMA audit;`)}
  DROP SCHEMA audit_next`;

/**
 * Time limit for locking the live tables. The lock waits for running queries and blocks new queries. The limit is
 * shorter than `deadlock_timeout`, so the attempt ends before Postgres reports a deadlock.
 */
const LOCK_TIMEOUT_MS = 200;

const LOCK_RETRY_INTERVAL_MS = 500;

/**
 * Fills a new index next to the live index, which stays in use and up to date. Then replaces the live index in one
 * transaction. If the process is killed, the live index stays as it is, and the next run starts from the beginning.
 *
 * @returns checkpoint of the new index when it came into use
 * @throws {TreeHeadError} if the tree of the new index does not match the published tree heads
 * @throws {CheckpointMovedError} if another rebuild is running
 * @throws {LogUnavailableError}
 */
export async function rebuildIndex(options: RebuildOptions): Promise<IndexCheckpoint> {
  const { client, pool, isNewTree, onProgress, onBlocked } = options;
  // The rebuild ends with its process. An aborted fill would be incomplete.
  const { signal } = new AbortController();
  await pool.query(CREATE_SQL);
  let read = 0;
  const fill = async () => {
    const endPosition = await readLogEnd(client);
    const onAdded = (position: bigint, count: number) => {
      read += count;
      onProgress({ read, share: Number(position) / Math.max(1, Number(endPosition)) });
    };
    await fillIndex({ client, pool, schema: "audit_next", onAdded }, signal, endPosition);
    return readIndexCheckpoint(pool, "audit_next");
  };
  const checkpoint = await fill();
  const index = new AuditIndex(() => pool, "audit_next");
  if (!isNewTree)
    await requirePublishedTree({ ...options, index }, checkpoint, formatCommandLine("audit rebuild-index --new-tree"));
  await pool.query(`ANALYZE ${listTables("audit_next")}`);
  const replaceLive = async (connection: pg.PoolClient) => {
    await connection.query(
      `SET LOCAL lock_timeout = ${LOCK_TIMEOUT_MS}; LOCK TABLE ${listTables("audit")} IN ACCESS EXCLUSIVE MODE`,
    );
    // A question that has started expects all events that the log contains by now.
    const lastCheckpoint = await fill();
    await connection.query(SWITCH_SQL);
    return lastCheckpoint;
  };
  const ignoreLockTimeout = (error: unknown) => {
    if (!isLockTimeout(error)) throw error;
  };
  for (let isFirst = true; ; isFirst = false) {
    // Only the events that are stored from now on are added while the lock blocks questions.
    await fill();
    const lastCheckpoint = await inTransaction(pool, replaceLive).catch(ignoreLockTimeout);
    if (lastCheckpoint) return lastCheckpoint;
    if (isFirst) await onBlocked();
    await pause(LOCK_RETRY_INTERVAL_MS, signal);
  }
}
