import type { AllStreamResolvedEvent } from "@eventstore/db-client";
import { LogUnavailableError } from "../../shared/eventstore/log.ts";

type ReadResponse = AsyncIterable<AllStreamResolvedEvent> & { destroy(error: Error): void };

/** Time limit for one read of the log. Milliseconds. */
export const READ_TIMEOUT_MS = 4_000;

/**
 * Limits the time of a read of `$all`. The client's own deadline does not end a read from a server that accepts
 * connections but never responds.
 *
 * @throws {LogUnavailableError} if the read takes longer than `READ_TIMEOUT_MS`
 */
export async function* readWithTimeout(events: ReadResponse): AsyncGenerator<AllStreamResolvedEvent, void> {
  const timer = setTimeout(
    () => events.destroy(new LogUnavailableError("The event log did not answer in time.")),
    READ_TIMEOUT_MS,
  );
  try {
    yield* events;
  } finally {
    clearTimeout(timer);
  }
}
