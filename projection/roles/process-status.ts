import type pg from "pg";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import type { LastError, RoleStatus } from "./role.ts";

export interface ProcessStatus {
  role: string;
  /** Host and process id. */
  process: string;
  state: RoleStatus["state"] | "stopped";
  detail: string | null;
  position: bigint | null;
  /** Null if the role reads no events or has just started. */
  eventsPerSecond: number | null;
  lastError: LastError | null;
  failedAt: LogPosition | null;
  /** Milliseconds since 1970. */
  at: number;
}

const MAX_STATUS_AGE = "1 day";

const MAX_TEXT_LENGTH = 2_000;

/** Writes the status, and deletes outdated statuses of all processes. */
export async function writeProcessStatus(pool: pg.Pool, status: ProcessStatus): Promise<void> {
  const { role, process, state, detail, position, eventsPerSecond, at } = status;
  const { lastError, failedAt } = status;
  await pool.query({
    name: "write process status",
    text: `WITH outdated AS (
        DELETE FROM projection.process_status WHERE at < $13::timestamptz - interval '${MAX_STATUS_AGE}')
      INSERT INTO projection.process_status (role, process, state, detail, position, events_per_second,
        last_error, last_error_at, failed_position, failed_stream, failed_revision, failed_type, at)
      VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
      ON CONFLICT (role, process) DO UPDATE SET (state, detail, position, events_per_second,
        last_error, last_error_at, failed_position, failed_stream, failed_revision, failed_type, at)
        = ROW (excluded.state, excluded.detail, excluded.position, excluded.events_per_second,
        excluded.last_error, excluded.last_error_at, excluded.failed_position, excluded.failed_stream,
        excluded.failed_revision, excluded.failed_type, excluded.at)`,
    values: [
      ...[role, process, state, detail?.slice(0, MAX_TEXT_LENGTH), position, eventsPerSecond],
      ...[lastError?.message.slice(0, MAX_TEXT_LENGTH), lastError && toInstant(lastError.at)],
      ...[failedAt?.position, failedAt?.stream, failedAt?.revision, failedAt?.type, toInstant(at)],
    ],
  });
}

interface ProcessStatusRow extends Omit<ProcessStatus, "lastError" | "failedAt" | "at"> {
  last_error: string | null;
  last_error_at: string | null;
  failed_position: bigint | null;
  failed_stream: string | null;
  failed_revision: bigint | null;
  failed_type: string | null;
  reported_at: string;
}

/** Returns the newest status first. */
export async function readProcessStatuses(pool: pg.Pool): Promise<ProcessStatus[]> {
  const { rows } = await pool.query<ProcessStatusRow>(
    `SELECT role, process, state, detail, position, events_per_second AS "eventsPerSecond", last_error,
            rfc3339(last_error_at) AS last_error_at, failed_position, failed_stream, failed_revision, failed_type,
            rfc3339(at) AS reported_at
       FROM projection.process_status ORDER BY at DESC`,
  );
  return rows.map((row) => {
    const { role, process, state, detail, position, eventsPerSecond } = row;
    return {
      role,
      process,
      state,
      detail,
      position,
      eventsPerSecond,
      lastError: toLastError(row),
      failedAt: toFailedPosition(row),
      at: Date.parse(row.reported_at),
    };
  });
}

function toLastError({ last_error: message, last_error_at: at }: ProcessStatusRow): LastError | null {
  return message === null || at === null ? null : { message, at: Date.parse(at) };
}

function toFailedPosition(row: ProcessStatusRow): LogPosition | null {
  const { failed_position: position, failed_stream: stream, failed_revision: revision } = row;
  if (position === null || stream === null || revision === null) return null;
  return { position, stream, revision, type: row.failed_type ?? "" };
}
