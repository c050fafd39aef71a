import {
  BACKWARDS,
  END,
  type EventStoreDBClient,
  jsonEvent,
  NO_STREAM,
  type ReadStreamOptions,
  StreamNotFoundError,
  WrongExpectedVersionError,
} from "@eventstore/db-client";
import type { CatalogEvent } from "../domain/events/catalog.ts";
import type { EventMetadata, NewEventMetadata } from "../domain/events/metadata.ts";
import { parseStoredEvent, requireFit, type StoredEvent } from "../domain/events/stored-event.ts";
import { currentVersion } from "../domain/events/upcasters.ts";
import { TimeoutError, withTimeout } from "../runtime/timeout.ts";

/** An event of the catalog as it stands in the log. */
export type RecordedEvent<Event extends CatalogEvent = CatalogEvent> = Event & {
  id: string;
  stream: string;
  /** Its place in the stream, from 0. */
  revision: bigint;
  /** Its place in the whole log (commit position). */
  position: bigint;
  metadata: EventMetadata;
};

/** An event to append. The id makes a repeated append of the same event harmless. */
export interface NewEvent {
  id: string;
  event: CatalogEvent;
  metadata: NewEventMetadata;
}

/** The stream was not where the writer thought: somebody else appended first. */
export class WrongExpectedRevision extends Error {
  override readonly name = "WrongExpectedRevision";
}

/** The log did not answer. After an append the outcome is unknown; the same append may be repeated. */
export class LogUnavailable extends Error {
  override readonly name = "LogUnavailable";
}

/** Revision of a stream without events: the expected revision of a stream's first append. */
export const EMPTY_STREAM = -1n;

/** The log answers within this, or counts as unavailable. Milliseconds. */
const ANSWER_TIMEOUT_MS = 4_000;

/** Reads and appends, through the client of EventStoreDB, in terms of the catalog. */
export interface EventLog {
  /**
   * The events of a stream from its start, in order; none where there is no such stream.
   *
   * @param upTo the last revision to read, all where absent
   * @throws {LogUnavailable}
   * @throws {EventSchemaError} for a stored event that its schema does not accept, or of an unknown type
   */
  read<Event extends CatalogEvent>(stream: string, upTo?: bigint): Promise<RecordedEvent<Event>[]>;
  /**
   * The last event of a stream; undefined where there is no such stream.
   *
   * @throws {LogUnavailable}
   * @throws {EventSchemaError} for a stored event that its schema does not accept, or of an unknown type
   */
  last<Event extends CatalogEvent>(stream: string): Promise<RecordedEvent<Event> | undefined>;
  /**
   * Appends all or nothing, where the stream's last revision is the expected one (-1n: no stream yet).
   *
   * @returns the position in the log of the last event appended
   * @throws {WrongExpectedRevision}
   * @throws {LogUnavailable}
   * @throws {EventSchemaError} for an event that does not fit the catalog; nothing is appended
   */
  append(stream: string, expectedRevision: bigint, events: NewEvent[]): Promise<bigint>;
}

export function createEventLog(client: EventStoreDBClient): EventLog {
  async function readStream<Event extends CatalogEvent>(stream: string, options: ReadStreamOptions) {
    const read: StoredRecord[] = [];
    await answered(async () => {
      try {
        for await (const { event } of client.readStream(stream, {
          ...options,
          deadline: ANSWER_TIMEOUT_MS,
        })) {
          if (event) read.push(event);
        }
      } catch (error) {
        if (!(error instanceof StreamNotFoundError)) throw error;
      }
    });
    // Not before the read has ended: one that is left halfway keeps the client from ever being disposed of.
    return read.map((event) => toRecordedEvent(event) as RecordedEvent<Event>);
  }

  return {
    read<Event extends CatalogEvent>(stream: string, upTo?: bigint) {
      return readStream<Event>(stream, upTo === undefined ? {} : { maxCount: upTo + 1n });
    },

    async last<Event extends CatalogEvent>(stream: string) {
      const [last] = await readStream<Event>(stream, {
        direction: BACKWARDS,
        fromRevision: END,
        maxCount: 1n,
      });
      return last;
    },

    async append(stream, expectedRevision, events) {
      for (const { event } of events) requireFit(event);
      const proposed = events.map(toStored);
      const append = () =>
        answered(() =>
          client.appendToStream(stream, proposed, {
            expectedRevision: expectedRevision === EMPTY_STREAM ? NO_STREAM : expectedRevision,
          }),
        );
      const result = await append().catch((error: unknown) => {
        // A broken connection takes every pending append of the process with it, done or not. The same ids at the
        // same revision are never appended twice, so one more try is safe.
        if (error instanceof LogUnavailable) return append();
        throw error;
      });
      return result.position?.commit ?? 0n;
    },
  };
}

/** One event as the client gives it. */
interface StoredRecord extends StoredEvent {
  id: string;
  streamId: string;
  revision: bigint;
  position?: { commit: bigint };
}

function toRecordedEvent(event: StoredRecord): RecordedEvent {
  return {
    ...parseStoredEvent(event),
    id: event.id,
    stream: event.streamId,
    revision: event.revision,
    position: event.position?.commit ?? 0n,
  };
}

/** The event as it goes into the log: with the current version of its schema. */
function toStored({ id, event, metadata }: NewEvent) {
  return jsonEvent({
    id,
    type: event.type,
    data: event.data as Record<string, unknown>,
    metadata: { ...metadata, schemaVersion: currentVersion(event.type) },
  });
}

/**
 * Runs one exchange with the log under a time limit of its own (the client has none for an append), and says
 * what went wrong in this module's terms.
 */
async function answered<T>(exchange: () => Promise<T>): Promise<T> {
  try {
    return await withTimeout(ANSWER_TIMEOUT_MS, exchange());
  } catch (error) {
    if (error instanceof WrongExpectedVersionError)
      throw new WrongExpectedRevision("somebody else appended to the stream first");
    throw toLogError(error);
  }
}

/**
 * Iterates over a read of the client, up to a time limit. The client's own deadline does not bound a server that accepts
 * connections and never answers.
 *
 * @param milliseconds the time limit of the whole read
 * @throws {LogUnavailable}
 */
export async function* readWithin<T>(
  milliseconds: number,
  read: AsyncIterable<T> & { destroy(error: Error): unknown },
): AsyncGenerator<T, void> {
  const late = () => read.destroy(new LogUnavailable("the event log did not answer in time"));
  const timer = setTimeout(late, milliseconds);
  try {
    yield* read;
  } catch (error) {
    throw toLogError(error);
  } finally {
    clearTimeout(timer);
  }
}

/** Returns an error of the client as {@link LogUnavailable} if the log is unavailable; else the error itself. */
export function toLogError(error: unknown): unknown {
  if (error instanceof LogUnavailable) return error;
  if (error instanceof TimeoutError)
    return new LogUnavailable("the event log did not answer in time", { cause: error });
  return isUnavailable(error) ? new LogUnavailable("the event log is unavailable", { cause: error }) : error;
}

/** gRPC's codes for «not now»: cancelled 1, deadline 4, aborted 10, unavailable 14; the client's own names for them. */
export function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  const { code, type } = error as { code?: unknown; type?: unknown };
  return (
    [1, 4, 10, 14].includes(code as number) ||
    ["unavailable", "timeout", "deadline-exceeded", "cancelled", "not-leader"].includes(String(type))
  );
}
