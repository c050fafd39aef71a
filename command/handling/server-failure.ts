import pg from "pg";
import { isAccessDenied } from "../../shared/eventstore/connect.ts";
import { type EventLog, LogUnavailableError } from "../../shared/eventstore/log.ts";
import { isLogAvailable } from "../../shared/eventstore/stream-failure.ts";
import { ConfigError } from "../../shared/runtime/config.ts";
import { isPostgresUnavailable, isValueRefused } from "../../shared/runtime/failures.ts";

/**
 * Returns true if an error would also occur for other objects: a server is unavailable, or a setting or a right is wrong.
 */
export function isServerFailure(error: unknown): boolean {
  return (
    error instanceof LogUnavailableError ||
    error instanceof ConfigError ||
    isAccessDenied(error) ||
    isPostgresUnavailable(error) ||
    (error instanceof pg.DatabaseError && !isValueRefused(error))
  );
}

/**
 * Returns true if an error of one object ends a run over many objects: it is a failure of a server. If the event log
 * failed, reads another stream, because the log may fail only for one stream.
 */
export async function endsRun(log: Pick<EventLog, "readLast">, error: unknown): Promise<boolean> {
  const concernsLog = error instanceof LogUnavailableError || isAccessDenied(error);
  return isServerFailure(error) && !(concernsLog && (await isLogAvailable(log)));
}
