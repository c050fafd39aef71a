import { finished, type Readable } from "node:stream";
import {
  type AllStreamRecordedEvent,
  BACKWARDS,
  END,
  type EventStoreDBClient,
  type ReadStreamOptions,
  type RecordedEvent as StoredEvent,
} from "@eventstore/db-client";
import { isInvalidPosition, isMissingStream, LogUnavailableError, REQUEST_TIMEOUT_MS, toLogError } from "./log.ts";

type StreamingRead<T> = Readable & AsyncIterable<T> & { cancel(): Promise<void> };

/**
 * Yields the items of a read. The caller may stop early. Unlike the client's own deadline, the time limit also applies
 * if the server never responds.
 *
 * @throws {LogUnavailableError} also after the time limit
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
 * Cancels the gRPC call of a read that ends early, for example after a timeout. Otherwise, the call would stay open,
 * and closing the client would wait for it forever.
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
    if (!isInvalidPosition(error)) throw error;
  }
  return foundEvent;
}

const PAGE_TIMEOUT_MS = 10_000;

/**
 * Reads events of a stream without decoding them, so that an invalid event does not hide the others. Returns no events
 * if the stream does not exist or was deleted.
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
 * @param options.requiresLeader if true, only the leader of a cluster answers. A follower may be behind
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
