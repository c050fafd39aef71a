import { ANY, type EventStoreDBClient, StreamDeletedError } from "@eventstore/db-client";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { appendEvents, UnexpectedRevisionError } from "../../../shared/eventstore/append.ts";
import { isAccessDenied, REACH_TIMEOUT_MS } from "../../../shared/eventstore/connect.ts";
import { EMPTY_STREAM, toAppendError } from "../../../shared/eventstore/log.ts";
import { StartError } from "../../../shared/runtime/run-service.ts";
import type { CopyServer } from "./copy-server.ts";
import {
  type EncodedEvent,
  getDescribedStream,
  isSoftDeletion,
  isTombstone,
  type StoredEvent,
} from "./stored-event.ts";

const MAX_APPEND_EVENTS = 500;

/**
 * Maximum size of several events in one append: half the default limit of EventStoreDB. A larger event has its own
 * append. Bytes.
 */
const MAX_APPEND_BYTES = 512 * 1024;

/** Consecutive events of one stream that are appended together. */
export class AppendBatch {
  readonly events: EncodedEvent[] = [];
  #bytes = 0;

  /** Adds the event. Returns false if the event does not belong in this batch. */
  add(event: EncodedEvent): boolean {
    const lastEvent = this.events.at(-1);
    const byteCount = event.data.length + event.metadata.length + 2 * Buffer.byteLength(event.type);
    if (lastEvent && (!isNextRevision(lastEvent, event) || this.events.length >= MAX_APPEND_EVENTS)) return false;
    if (lastEvent && this.#bytes + byteCount > MAX_APPEND_BYTES) return false;
    this.events.push(event);
    this.#bytes += byteCount;
    return true;
  }
}

/** Returns false for a tombstone too, because it has the highest possible revision. */
function isNextRevision(lastEvent: StoredEvent, event: StoredEvent): boolean {
  return event.stream === lastEvent.stream && event.revision === lastEvent.revision + 1n;
}

/**
 * Appends the events of a batch to the target at their revisions. A repeated append has no effect.
 *
 * @throws {DomainError} if the target's stream does not end directly before the first event
 * @throws {StartError} if the user may not write the target's stream
 * @throws {ServerUnavailableError}
 */
export async function appendBatch(
  target: Pick<CopyServer, "client" | "request">,
  { events }: AppendBatch,
): Promise<void> {
  const [firstEvent] = events;
  if (!firstEvent) return;
  const { stream, revision } = firstEvent;
  try {
    await target.request(async () => {
      try {
        if (isTombstone(firstEvent)) await tombstoneStream(target.client, stream);
        else await appendEvents(target.client, stream, revision - 1n, events, REACH_TIMEOUT_MS);
      } catch (error) {
        throw isAccessDenied(error) ? createDenialError(stream) : toAppendError(error);
      }
    });
  } catch (error) {
    if (error instanceof UnexpectedRevisionError) throw createConflictError(firstEvent, error.lastRevision);
    if (error instanceof Error && error.name === "Error")
      throw new Error(`revision ${revision} of stream ${stream} cannot be copied: ${error.message}`, { cause: error });
    throw error;
  }
}

async function tombstoneStream(client: EventStoreDBClient, stream: string): Promise<void> {
  try {
    await client.tombstoneStream(stream, { expectedRevision: ANY, requiresLeader: true });
  } catch (error) {
    // An earlier attempt has deleted the stream, but its response was lost.
    if (!(error instanceof StreamDeletedError)) throw error;
  }
}

function createDenialError(stream: string): StartError {
  return new StartError(
    `the target log does not let the user in COPY_TARGET_URL write stream ${stream}; use a member of $admins, because the copied metadata of a stream can restrict its access`,
  );
}

function createConflictError({ stream, revision }: StoredEvent, lastRevision: bigint): DomainError {
  if (lastRevision < revision - 1n) {
    const start = lastRevision === EMPTY_STREAM ? "the start" : `revision ${lastRevision}`;
    return new DomainError(
      "revision_gap",
      `in the source, stream ${stream} has no events between ${start} and revision ${revision}, for example because they were scavenged; a copy cannot reproduce this gap`,
    );
  }
  return new DomainError(
    "target_changed",
    `in the target, stream ${stream} already has revision ${lastRevision}; another program writes to the target`,
  );
}

/**
 * Tracks the streams that are deleted, but not permanently. If such a stream is written to again, the server adds a
 * metadata event with a new id, so the copy would differ from the source.
 */
export class SoftDeletions {
  readonly #streams = new Set<string>();

  /** Records the effect of an event that both logs hold. */
  apply(event: StoredEvent): void {
    const describedStream = getDescribedStream(event.stream);
    if (describedStream === undefined) return;
    if (isSoftDeletion(event)) this.#streams.add(describedStream);
    else this.#streams.delete(describedStream);
  }

  /** @throws {DomainError} if the event would restore a deleted stream */
  requireCopyable(event: StoredEvent): void {
    const stream = getDescribedStream(event.stream) ?? event.stream;
    if (!this.#streams.has(stream) || isTombstone(event)) return;
    throw new DomainError(
      "stream_restored",
      `stream ${stream} was deleted, and an event of ${event.stream} was written later; a server records such a restoration with a new id, so the stream cannot be copied unchanged`,
    );
  }
}
