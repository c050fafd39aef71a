import { LogUnavailableError } from "../../shared/eventstore/log.ts";
import type { StreamReader } from "../../shared/eventstore/read-stream.ts";
import { TimeoutError, withTimeout } from "../../shared/runtime/timeout.ts";

/**
 * Limits the reads of a log to a request's deadline.
 *
 * @param deadline time at which reads fail with a {@link LogUnavailableError}, as a value of `performance.now()`
 */
export function limitLogReads(log: StreamReader, deadline: number): StreamReader {
  return {
    async read(stream, maxRevision) {
      try {
        return await withTimeout(Math.max(0, deadline - performance.now()), log.read(stream, maxRevision));
      } catch (error) {
        if (!(error instanceof TimeoutError)) throw error;
        throw new LogUnavailableError("the event log did not respond before the request's deadline", { cause: error });
      }
    },
  };
}
