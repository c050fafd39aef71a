import type pg from "pg";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import type { RoleStatus } from "./role.ts";

/** Status of a role in a process, as the process reports it to the database. */
interface Report extends Pick<RoleStatus, "detail" | "lastError" | "failedAt"> {
  role: string;
  /** Host and process id. */
  process: string;
  state: RoleStatus["state"] | "stopped";
  /** Milliseconds since 1970. */
  at: number;
}

/** Report with decimal strings instead of log positions and revisions. */
export interface ProcessStatus extends Omit<Report, "failedAt"> {
  failedAt?: Record<keyof LogPosition, string>;
}

const MAX_STATUS_AGE = "1 day";

const MAX_TEXT_LENGTH = 2_000;

/** Writes a report, and deletes outdated reports of all processes. */
export async function writeProcessStatus(pool: pg.Pool, { at, ...report }: Report): Promise<void> {
  const storeValue = (_: string, value: unknown) => {
    if (typeof value === "bigint") return String(value);
    return typeof value === "string" ? value.slice(0, MAX_TEXT_LENGTH) : value;
  };
  await pool.query({
    name: "write process status",
    text: `WITH outdated AS (
        DELETE FROM projection.process_status WHERE at < $4::timestamptz - interval '${MAX_STATUS_AGE}')
      INSERT INTO projection.process_status (role, process, status, at) VALUES ($1, $2, $3, $4)
      ON CONFLICT (role, process) DO UPDATE SET status = excluded.status, at = excluded.at`,
    values: [report.role, report.process, JSON.stringify(report, storeValue), toInstant(at)],
  });
}

/** Reads the statuses of all processes, newest first. */
export async function readProcessStatuses(pool: pg.Pool): Promise<ProcessStatus[]> {
  const { rows } = await pool.query<{ status: Omit<ProcessStatus, "at">; at: string }>(
    "SELECT status, rfc3339(at) AS at FROM projection.process_status s ORDER BY s.at DESC",
  );
  return rows.map(({ status, at }) => ({ ...status, at: Date.parse(at) }));
}
