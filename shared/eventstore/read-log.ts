import { finished, type Readable } from "node:stream";
import {
  type AllStreamRecordedEvent,
  BACKWARDS,
  END,
  type EventStoreDBClient,
  type ReadStreamOptions,
  type RecordedEvent as StoredEvent,
} from "@eventstore/db-client";
import { isMissingStream, LogUnavailableError, REQUEST_TIMEOUT_MS, toLogError } from "./log.ts";

type StreamingRead<T> = Readable & AsyncIterable<T> & { cancel(): Promise<void> };

/**
 * Iterates over a read, up to a time limit. The client's own deadline has no effect if the server accepts connections
 * but never responds. The caller may stop early.
 *
 * @throws {LogUnavailableError}
 */
export async function* readWithin<T>(timeoutMs: number, streamingRead: StreamingRead<T>): AsyncGenerator<T, void> {
  endAbandonedRead(streamingRead);
  const abortRead = () => streamingRead.destroy(new LogUnavailableError("the event log did not respond in time"));
  const timer = setTimeout(abortRead, timeoutMs);
  try {
    yield* streamingRead;
  } catch (error) {
    throw toLogError(error);
  } finally {
    clearTimeout(timer);
  }
}

/**
 * Ends the gRPC call of a read if the read is not read to its end, for example because its response arrives too late.
 * Otherwise, the client would keep the call forever, and its disposal would never end.
 */
function endAbandonedRead(streamingRead: StreamingRead<unknown>): void {
  streamingRead.once("pipe", (call: Readable) =>
    finished(streamingRead, (error) => {
      if (!error) return;
      call.unpipe().resume();
      void streamingRead.cancel();
    }),
  );
}

/**
 * Reads the event at a position of the log.
 *
 * @returns undefined if no event starts at the position
 * @throws {LogUnavailableError}
 * @throws other client errors, for example for a damaged record. Such an error does not mean that the event is missing
 */
export async function readEventAt(
  client: EventStoreDBClient,
  position: bigint,
): Promise<AllStreamRecordedEvent | undefined> {
  const streamingRead = client.readAll({ fromPosition: { commit: position, prepare: position }, maxCount: 1 });
  let foundEvent: AllStreamRecordedEvent | undefined;
  try {
    for await (const { event } of readWithin(REQUEST_TIMEOUT_MS, streamingRead))
      if (event?.position.commit === position) foundEvent = event;
  } catch (error) {
    if (!isInvalidPosition(error as ServiceError)) throw error;
  }
  return foundEvent;
}

interface ServiceError extends Error {
  code?: number;
}

/**
 * Returns true if a read failed because no record starts at its position. The embedded log then returns the status
 * INVALID_ARGUMENT (3), and EventStoreDB 24.10 returns the status UNKNOWN (2).
 */
function isInvalidPosition({ code, message }: ServiceError): boolean {
  return code === 3 || (code === 2 && message.includes("InvalidPosition"));
}

const PAGE_TIMEOUT_MS = 10_000;

/**
 * Reads events of a stream as they are stored, so that an unreadable event affects no other. Returns no events if the
 * stream does not exist or was deleted.
 *
 * @throws {LogUnavailableError}
 */
export async function readStoredEvents(
  client: EventStoreDBClient,
  stream: string,
  options: ReadStreamOptions,
): Promise<StoredEvent[]> {
  const events: StoredEvent[] = [];
  try {
    const streamingRead = client.readStream(stream, { ...options, deadline: PAGE_TIMEOUT_MS });
    for await (const { event } of readWithin(PAGE_TIMEOUT_MS, streamingRead)) if (event) events.push(event);
  } catch (error) {
    if (isMissingStream(error)) return [];
    throw error;
  }
  return events;
}

export const BEFORE_FIRST_EVENT = -1n;

/**
 * Reads the position of the last event in the log.
 *
 * @param options.requiresLeader if true, a follower of a cluster, which may be behind, does not answer
 * @returns `BEFORE_FIRST_EVENT` if the log is empty
 * @throws {LogUnavailableError}
 */
export async function readLogEnd(
  client: EventStoreDBClient,
  options: { requiresLeader?: boolean } = {},
): Promise<bigint> {
  const events = client.readAll({ direction: BACKWARDS, fromPosition: END, maxCount: 1, ...options });
  let logEnd = BEFORE_FIRST_EVENT;
  for await (const { event } of readWithin(REQUEST_TIMEOUT_MS, events))
    logEnd = event?.position.commit ?? BEFORE_FIRST_EVENT;
  return logEnd;
}
