import pg from "pg";
import { type EventLog, isAccessDenied, LogUnavailableError } from "../../shared/eventstore/log.ts";
import { isLogAvailable } from "../../shared/eventstore/stream-failure.ts";
import { ConfigError } from "../../shared/runtime/config.ts";
import { isPostgresUnavailable, isValueRefused } from "../../shared/runtime/failures.ts";

/**
 * Returns true if an error would recur for other objects: a server is down, a setting is wrong, or access is denied.
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
 * Returns true if the error of one object must end a run over many objects, because a server failed. Returns false if
 * the event log fails for this object's stream but answers for another stream.
 */
export async function endsRun(log: Pick<EventLog, "readLast">, error: unknown): Promise<boolean> {
  const concernsLog = error instanceof LogUnavailableError || isAccessDenied(error);
  return isServerFailure(error) && !(concernsLog && (await isLogAvailable(log)));
}
