import {
  BACKWARDS,
  type RecordedEvent as ClientEvent,
  type CommandError,
  END,
  type EventStoreDBClient,
  NotLeaderError,
  type ReadStreamOptions,
  StreamDeletedError,
  StreamNotFoundError,
} from "@eventstore/db-client";
import { DomainError } from "../domain/domain-error.ts";
import {
  belongsToOneClinic,
  type CatalogEvent,
  getCompleteTypes,
  refuseTooManyChanges,
} from "../domain/events/catalog.ts";
import type { NewEventMetadata } from "../domain/events/metadata.ts";
import type { RecordedEvent } from "../domain/events/recorded-event.ts";
import { EventSchemaError, parseStoredEvent, requireValidEvent } from "../domain/events/stored-event.ts";
import { getCurrentVersion } from "../domain/events/upcasters.ts";
import type { Person } from "../domain/personal-data/person.ts";
import type { DataKeys } from "../personal-data/data-keys.ts";
import { decryptEvent, findKeysOf } from "../personal-data/decrypt-events.ts";
import { type EncryptedEventData, encryptEvents } from "../personal-data/encrypt-events.ts";
import { TimeoutError, withTimeout } from "../runtime/timeout.ts";
import { appendEvents, appendEventsInSharedCall, type ProposedEvent, UnexpectedRevisionError } from "./append.ts";
import { traceAppend } from "./trace-append.ts";

export interface NewEvent {
  id: string;
  event: CatalogEvent;
  metadata: NewEventMetadata;
  /** Person whose personal data the event contains. Required if the event has personal data. */
  person?: Person | undefined;
}

/** Thrown if a stream's last revision is not the expected revision, because another writer appended first. */
export class WrongExpectedRevisionError extends Error {
  override readonly name = "WrongExpectedRevisionError";
}

/** Thrown if the event log is unavailable. The outcome of an append is then unknown, and the append may be repeated. */
export class LogUnavailableError extends Error {
  override readonly name = "LogUnavailableError";
}

/** Expected revision for the first append to a stream. */
export const EMPTY_STREAM = -1n;

export const REQUEST_TIMEOUT_MS = 4_000;

/** Number of events per page when a stream is read backwards. */
const PAGE_SIZE = 100;

/** Number of events per page when a stream is read from its start. The time limit applies to each page. */
const FORWARD_PAGE_SIZE = 500;

export interface EventLog {
  /**
   * Reads the events that determine the state of a stream, in order. Starts at a recent event that determines the whole
   * state ({@link getCompleteTypes}), or else at the first event. Returns an empty array if the stream does not exist
   * or was deleted. If the first events were deleted, returns the other events.
   *
   * @param maxRevision last revision to read; all revisions if undefined
   * @param signal if aborted, the read throws the signal's reason before its next page
   *
   * @throws {LogUnavailableError}
   * @throws {KeyStoreUnavailableError} if the data keys of the events' personal data are unavailable
   * @throws {EventSchemaError} if a stored event is invalid, has an unknown type, or belongs to another clinic
   */
  read<Event extends CatalogEvent>(
    stream: string,
    maxRevision?: bigint,
    signal?: AbortSignal,
  ): Promise<RecordedEvent<Event>[]>;
  /**
   * Reads the last event of a stream. Returns undefined if the stream does not exist or was deleted.
   *
   * @param maxRevision last revision to consider; all revisions if undefined
   *
   * @throws {LogUnavailableError}
   * @throws {KeyStoreUnavailableError} if the data key of the event's personal data is unavailable
   * @throws {EventSchemaError} if a stored event is invalid or has an unknown type
   */
  readLast<Event extends CatalogEvent>(stream: string, maxRevision?: bigint): Promise<RecordedEvent<Event> | undefined>;
  /**
   * Appends events to a stream atomically, on the condition that the stream has the expected last revision.
   *
   * @param expectedRevision `EMPTY_STREAM` for a new stream
   * @returns the log position of the last appended event
   * @throws {WrongExpectedRevisionError}
   * @throws {LogUnavailableError}
   * @throws {KeyStoreUnavailableError} if the data keys of the events' personal data are unavailable
   * @throws {EventSchemaError} if an event is invalid; in this case, no event is appended
   * @throws {DomainError} `event_too_large` or `too_many_changes` if the events exceed the limit of the log or the
   *   stream; `object_deleted` if the stream or all its events were deleted permanently. In these cases, no event is
   *   appended
   */
  append(stream: string, expectedRevision: bigint, events: NewEvent[]): Promise<bigint>;
}

interface EventLogOptions {
  /** Keys of personal data. Without keys, reads return neutral values instead of encrypted personal data. */
  dataKeys?: DataKeys;
}

/** Creates an event log that uses a client. Without data keys, the log cannot append personal data. */
export function createEventLog(client: EventStoreDBClient, { dataKeys }: EventLogOptions = {}): EventLog {
  async function readClientEvents(stream: string, options: ReadStreamOptions): Promise<ClientEvent[]> {
    const clientEvents: ClientEvent[] = [];
    const readEvents = async () => {
      for await (const { event } of client.readStream(stream, options)) if (event) clientEvents.push(event);
    };
    await withTimeout(REQUEST_TIMEOUT_MS, readEvents()).catch((error: unknown) => {
      if (!isMissingStream(error)) throw toLogError(error);
    });
    return clientEvents;
  }

  async function readStream<Event extends CatalogEvent>(stream: string, options: ReadStreamOptions) {
    const clientEvents = await readClientEvents(stream, options);
    // Events are parsed after the read has ended, because an unfinished read would prevent the client's disposal.
    const events = clientEvents.map(toRecordedEvent);
    const keys = dataKeys && (await findKeysOf(events, dataKeys));
    return (keys ? events.map((event) => decryptEvent(event, keys)) : events) as RecordedEvent<Event>[];
  }

  /** Reads a stream from its start, in pages, because the time of each request is limited. */
  async function readForward<Event extends CatalogEvent>(
    stream: string,
    maxRevision?: bigint,
    signal?: AbortSignal,
  ): Promise<RecordedEvent<Event>[]> {
    const events: RecordedEvent<Event>[] = [];
    let fromRevision = 0n;
    while (maxRevision === undefined || fromRevision <= maxRevision) {
      signal?.throwIfAborted();
      const remainingCount = maxRevision === undefined ? FORWARD_PAGE_SIZE : Number(maxRevision - fromRevision) + 1;
      const maxCount = Math.min(FORWARD_PAGE_SIZE, remainingCount);
      const page = await readStream<Event>(stream, { fromRevision, maxCount });
      // The first events of a stream can be missing. The page then contains later events instead.
      for (const event of page) if (maxRevision === undefined || event.revision <= maxRevision) events.push(event);
      const lastEvent = page.at(-1);
      if (!lastEvent || page.length < maxCount) break;
      fromRevision = lastEvent.revision + 1n;
    }
    return events;
  }

  /** Reads pages backwards until a page has an event of a complete type. Returns that event and all later events. */
  async function readBack<Event extends CatalogEvent>(
    stream: string,
    completeTypes: readonly string[],
    fromRevision: bigint | typeof END,
    signal?: AbortSignal,
  ): Promise<RecordedEvent<Event>[]> {
    signal?.throwIfAborted();
    const options = { direction: BACKWARDS, fromRevision, maxCount: PAGE_SIZE } as const;
    const page = (await readStream<Event>(stream, options)).reverse();
    const completeIndex = page.findIndex(({ type }) => completeTypes.includes(type));
    const [firstEvent] = page;
    if (!firstEvent || completeIndex >= 0 || firstEvent.revision === 0n) return page.slice(Math.max(0, completeIndex));
    return [...(await readBack<Event>(stream, completeTypes, firstEvent.revision - 1n, signal)), ...page];
  }

  const isEmpty = async (stream: string) =>
    (await readClientEvents(stream, { direction: BACKWARDS, fromRevision: END, maxCount: 1n })).length === 0;

  return {
    async read<Event extends CatalogEvent>(stream: string, maxRevision?: bigint, signal?: AbortSignal) {
      const completeTypes = getCompleteTypes(stream);
      const events = await (completeTypes.length > 0
        ? readBack<Event>(stream, completeTypes, maxRevision ?? END, signal)
        : readForward<Event>(stream, maxRevision, signal));
      if (belongsToOneClinic(stream)) requireOneClinic(events);
      return events;
    },

    async readLast<Event extends CatalogEvent>(stream: string, maxRevision?: bigint) {
      const [lastEvent] = await readStream<Event>(stream, {
        direction: BACKWARDS,
        fromRevision: maxRevision ?? END,
        maxCount: 1n,
      });
      return lastEvent;
    },

    async append(stream, expectedRevision, events) {
      requireAppendable(stream, expectedRevision, events);
      const encryptedData = await encryptEvents(stream, events, dataKeys);
      return traceAppend(stream, events, (tracedEvents) => {
        const proposedEvents = tracedEvents.map((event, index) => toProposedEvent(event, encryptedData[index]));
        return appendAtMostOnce(client, stream, expectedRevision, proposedEvents);
      }).catch(async (error: unknown) => {
        const isConflictOfNew = error instanceof WrongExpectedRevisionError && expectedRevision === EMPTY_STREAM;
        // Without this check, a change of a stream whose events are hidden would be repeated in vain.
        const isDeleted = error instanceof StreamDeletedError || (isConflictOfNew && (await isEmpty(stream)));
        throw isDeleted ? new DomainError("object_deleted", "the object was deleted permanently") : error;
      });
    },
  };
}

/** @throws {EventSchemaError} if an event of a stream belongs to another clinic than the events before it */
function requireOneClinic<Event extends CatalogEvent>(events: readonly RecordedEvent<Event>[]): void {
  const otherEvent = events.find(({ metadata }) => metadata.clinicId !== events[0]?.metadata.clinicId);
  if (otherEvent)
    throw new EventSchemaError(`${otherEvent.type} belongs to another clinic than the stream's earlier events`);
}

/** Returns true if a read failed because its stream does not exist or was deleted. */
export function isMissingStream(error: unknown): boolean {
  return error instanceof StreamNotFoundError || error instanceof StreamDeletedError;
}

/** Maximum size of an append in bytes: the default of EventStoreDB. */
const MAX_APPEND_BYTES = 1024 * 1024;

/**
 * Checks that events are valid, that the stream does not exceed its maximum length, and that the log accepts the size.
 * Personal data is short, so checking the size before encryption is sufficient.
 *
 * @throws {EventSchemaError}
 * @throws {DomainError} `event_too_large`, `too_many_changes`
 */
export function requireAppendable(stream: string, expectedRevision: bigint, events: readonly NewEvent[]): void {
  for (const { event, metadata } of events) requireValidEvent(stream, event, metadata);
  refuseTooManyChanges(stream, expectedRevision, events);
  const countBytes = (value: unknown) => Buffer.byteLength(JSON.stringify(value));
  const byteCount = events.reduce((sum, { event: { type, data }, metadata }) => {
    const storedMetadata = { ...metadata, schemaVersion: getCurrentVersion(type) };
    return sum + countBytes(data) + countBytes(storedMetadata) + 2 * type.length;
  }, 0);
  if (byteCount > MAX_APPEND_BYTES) throw new DomainError("event_too_large", "the data is larger than 1 MiB");
}

/**
 * Maximum number of attempts. A closed connection can make two fail: the shared call, and a call on the old connection.
 */
const MAX_ATTEMPTS = 3;

/**
 * Appends events, and repeats the append if its outcome is unknown. A repeat has the same ids, so the events are
 * appended at most once. The first attempt shares a call with other appends. A repeat has a separate call, so that
 * another append cannot make it fail.
 */
async function appendAtMostOnce(
  client: EventStoreDBClient,
  stream: string,
  expectedRevision: bigint,
  events: readonly ProposedEvent[],
): Promise<bigint> {
  const endsAt = performance.now() + 2 * REQUEST_TIMEOUT_MS;
  for (let attempt = 1; ; attempt += 1) {
    const timeoutMs = Math.min(REQUEST_TIMEOUT_MS, endsAt - performance.now());
    const send = attempt === 1 ? appendEventsInSharedCall : appendEvents;
    try {
      return await send(client, stream, expectedRevision, events, timeoutMs);
    } catch (error) {
      if (error instanceof UnexpectedRevisionError)
        throw new WrongExpectedRevisionError("another writer appended to the stream first");
      if (attempt === 1) continue;
      if (isTooLarge(error)) throw new DomainError("event_too_large", "the event log refuses an append of this size");
      const logError = toAppendError(error);
      const isLast = attempt === MAX_ATTEMPTS || performance.now() >= endsAt;
      if (isLast || !(logError instanceof LogUnavailableError)) throw logError;
    }
  }
}

/**
 * Exceptions of a server whose size limit is below {@link MAX_APPEND_BYTES}. Only KurrentDB throws the second
 * exception, which the client does not know.
 */
const SIZE_EXCEPTIONS: readonly unknown[] = ["maximum-append-size-exceeded", "maximum-append-event-size-exceeded"];

function isTooLarge(error: unknown): boolean {
  return SIZE_EXCEPTIONS.includes((error as Partial<CommandError>)._raw?.metadata?.get("exception")[0]);
}

function toRecordedEvent(event: ClientEvent): RecordedEvent {
  return {
    ...parseStoredEvent(event),
    id: event.id,
    stream: event.streamId,
    revision: event.revision,
    position: event.position?.commit ?? 0n,
  };
}

/**
 * Converts an event to bytes, with its schema version.
 *
 * @param encryptedData data to store instead of the event's data, if the event has personal data
 */
function toProposedEvent({ id, event, metadata }: NewEvent, encryptedData?: EncryptedEventData): ProposedEvent {
  const toBytes = (value: unknown) => Buffer.from(JSON.stringify(value));
  return {
    id,
    type: event.type,
    contentType: "application/json",
    data: toBytes(encryptedData ?? event.data),
    metadata: toBytes({ ...metadata, schemaVersion: getCurrentVersion(event.type) }),
  };
}

const getCode = (error: unknown) => (error as { code?: unknown }).code;

/** Returns true if the server refused the credentials (gRPC code 16), or the user lacks a right (code 7). */
export function isAccessDenied(error: unknown): boolean {
  return [7, 16].includes(getCode(error) as number);
}

/**
 * Returns true if a read failed because no record starts at its position. The embedded log then returns the status
 * INVALID_ARGUMENT (3), and EventStoreDB 24.10 returns the status UNKNOWN (2).
 */
export function isInvalidPosition(error: unknown): boolean {
  return getCode(error) === 3 || (getCode(error) === 2 && (error as Error).message.includes("InvalidPosition"));
}

/**
 * Converts the error of an append. An append with the gRPC status UNKNOWN (2) may be repeated, unlike a read:
 * EventStoreDB does not know its outcome, or which node is the leader.
 */
export function toAppendError(error: unknown): unknown {
  return getCode(error) === 2
    ? new LogUnavailableError("the event log does not know the outcome of the append", { cause: error })
    : toLogError(error);
}

/**
 * Converts a client error to a {@link LogUnavailableError} if the log is unavailable. Returns any other error
 * unchanged.
 */
export function toLogError(error: unknown): unknown {
  if (error instanceof LogUnavailableError) return error;
  if (error instanceof TimeoutError)
    return new LogUnavailableError("the event log did not respond in time", { cause: error });
  return isUnavailable(error) ? new LogUnavailableError("the event log is unavailable", { cause: error }) : error;
}

/** The client's message if no node of a cluster is available. The error has no code. */
const DISCOVERY_FAILURE_PATTERN = /^Failed to discover/;

/**
 * gRPC codes of temporary failures: cancelled, deadline exceeded, resource exhausted, aborted, internal and
 * unavailable. A load balancer causes `internal` and `resource exhausted` if it resets a call. All other codes are
 * permanent refusals.
 */
const TEMPORARY_CODES: readonly unknown[] = [1, 4, 8, 10, 13, 14];

/** Returns true if a client error is temporary. After a {@link NotLeaderError}, the client uses the reported leader. */
function isUnavailable(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return (
    TEMPORARY_CODES.includes(getCode(error)) ||
    error instanceof NotLeaderError ||
    DISCOVERY_FAILURE_PATTERN.test(error.message)
  );
}
