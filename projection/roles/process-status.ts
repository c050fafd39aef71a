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
export async function writeProcessStatus(pool: pg.Pool, { at, ...status }: ProcessStatus): Promise<void> {
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
    values: [status.role, status.process, JSON.stringify(status, storeValue), toInstant(at)],
  });
}

/** Status with decimal strings instead of log positions and revisions. */
interface StoredStatus extends Omit<ProcessStatus, "position" | "failedAt" | "at"> {
  position: string | null;
  failedAt: (Pick<LogPosition, "stream" | "type"> & { position: string; revision: string }) | null;
}

/** Returns the newest status first. */
export async function readProcessStatuses(pool: pg.Pool): Promise<ProcessStatus[]> {
  const { rows } = await pool.query<{ status: StoredStatus; at: string }>(
    "SELECT status, rfc3339(at) AS at FROM projection.process_status s ORDER BY s.at DESC",
  );
  return rows.map(({ status, at }) => {
    const { position, failedAt } = status;
    return {
      ...status,
      position: position === null ? null : BigInt(position),
      failedAt: failedAt && {
        ...failedAt,
        position: BigInt(failedAt.position),
        revision: BigInt(failedAt.revision),
      },
      at: Date.parse(at),
    };
  });
}
