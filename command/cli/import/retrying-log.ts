import type { EventLog } from "../../../shared/eventstore/log.ts";
import { createRetry, type RetryOptions } from "../retry.ts";

/**
 * Creates an event log that retries its operations with backoff while the log is unavailable. Retrying an append is
 * safe: each attempt has the same event ids and expected revision, so the log appends the events at most once.
 *
 * @throws {LogUnavailableError} from an operation whose retries have timed out
 */
export function createRetryingEventLog(log: EventLog, options: RetryOptions): EventLog {
  const retry = createRetry(options);
  return {
    read: (stream, lastRevision) => retry(() => log.read(stream, lastRevision)),
    readLast: (stream) => retry(() => log.readLast(stream)),
    append: (stream, expectedRevision, events) => retry(() => log.append(stream, expectedRevision, events)),
  };
}
