import { randomUUID } from "node:crypto";
import { decideAppend, NO_STREAM, type StreamHistory } from "../model/append-rules.ts";
import { computePosition, encodeRecord, type ProposedEvent, TOMBSTONE_EVENT_TYPE } from "../model/record.ts";
import {
  encodeRestoration,
  encodeSoftDeletion,
  getFirstReadableRevision,
  getMetadataStream,
  getOriginalStream,
  METADATA_EVENT_TYPE,
  parseMetadata,
  type StreamState,
} from "../model/stream-metadata.ts";
import { type StoredRecord, TOMBSTONE_REVISION } from "../storage/log-format.ts";
import type { LogIndex } from "../storage/log-index.ts";

export interface WriteRequest {
  readonly kind: "append" | "soft-delete" | "tombstone";
  readonly stream: string;
  /** An exact revision, or one of NO_STREAM, ANY and STREAM_EXISTS. */
  readonly expectedRevision: number;
  readonly events: readonly ProposedEvent[];
}

export type WriteResult =
  /**
   * `revision` is NO_STREAM after an empty append to a new stream, and a bigint after an empty append to a tombstoned
   * stream. `position` is undefined if the write is a retry and the stored event is no longer readable.
   */
  | { readonly outcome: "written"; readonly revision: number | bigint; readonly position: number | undefined }
  | { readonly outcome: "wrong-revision"; readonly currentRevision: number }
  | { readonly outcome: "deleted" };

export interface StreamRevision {
  readonly stream: string;
  readonly revision: number;
}

/** Data about stored events that a group needs to accept or refuse its writes. */
export interface StoredHistory {
  /** Event ids, by the key of {@link formatEventKey}. */
  readonly eventIds: Map<string, string>;
  /** Newest metadata of the soft-deleted streams, by stream name. */
  readonly metadata: Map<string, Uint8Array>;
  readonly recentEvents: { get(id: string): StreamRevision | undefined };
}

const NO_BYTES = new Uint8Array(0);
const EMPTY_METADATA = Buffer.from("{}");

/** Event of this group. A later write of the group may be a retry that contains this event again. */
interface StagedEvent {
  readonly id: string;
  readonly position: number;
}

/**
 * A group of writes that is not on disk yet. The group accepts or refuses each write, based on the committed log and the
 * group's earlier writes, and collects the records to store. If the group cannot be stored, it is discarded. So the
 * state in memory is never ahead of the disk.
 */
export class StagedGroup {
  readonly #states = new Map<string, StreamState>();
  readonly revisionsById = new Map<string, StreamRevision>();
  readonly records: StoredRecord[] = [];
  readonly #stagedEvents = new Map<string, StagedEvent>();
  readonly #metadata = new Map<string, Uint8Array>();
  readonly #index: LogIndex;
  readonly #history: StoredHistory;
  readonly #createdAt: number;
  #position: number;

  /** @param createdAt milliseconds since 1970 */
  constructor(index: LogIndex, history: StoredHistory, createdAt: number) {
    this.#index = index;
    this.#history = history;
    this.#createdAt = createdAt;
    this.#position = index.lastPosition;
  }

  /** Accepts or refuses a write. Adds the records of an accepted write to the group. */
  stage(request: WriteRequest): WriteResult {
    const state = this.#getState(request.stream);
    const originalStream = getOriginalStream(request.stream);
    if (originalStream !== undefined && this.#getState(originalStream).isTombstoned) return { outcome: "deleted" };
    const ids = request.kind === "append" ? request.events.map((event) => event.id) : [randomUUID()];
    const decision = decideAppend(request.expectedRevision, ids, state, this.#createHistory(request.stream));
    switch (decision.kind) {
      case "deleted":
        return { outcome: "deleted" };
      case "wrong-revision":
        return { outcome: "wrong-revision", currentRevision: decision.currentRevision };
      case "already-written":
        return this.#findStoredResult(request.stream, decision.revision, state);
      case "write":
        return this.#stageWrite(request, state);
    }
  }

  #stageWrite(request: WriteRequest, state: StreamState): WriteResult {
    if (request.kind === "soft-delete") return this.#stageSoftDeletion(request.stream, state);
    if (request.kind === "tombstone") return this.#stageTombstone(request.stream, state);
    const originalStream = getOriginalStream(request.stream);
    if (originalStream !== undefined) return this.#stageMetadataEvents(request, originalStream);
    const writeResult = this.#stageEvents(request.stream, request.events);
    if (state.isSoftDeleted) this.#stageRestoration(request.stream, state.lastRevision + 1);
    return writeResult;
  }

  #stageMetadataEvents(request: WriteRequest, originalStream: string): WriteResult {
    const stateBefore = this.#getState(originalStream);
    const writeResult = this.#stageEvents(request.stream, request.events);
    const lastEvent = request.events.at(-1);
    if (lastEvent === undefined) return writeResult;
    this.#applyMetadata(originalStream, lastEvent);
    if (stateBefore.isSoftDeleted) this.#stageRestoration(originalStream, stateBefore.lastRevision + 1);
    return writeResult;
  }

  #stageSoftDeletion(stream: string, state: StreamState): WriteResult {
    if (state.lastRevision < 0 && !this.#hasMetadata(stream)) {
      return { outcome: "wrong-revision", currentRevision: NO_STREAM };
    }
    return this.#stageMetadata(stream, encodeSoftDeletion());
  }

  #stageTombstone(stream: string, state: StreamState): WriteResult {
    const event = createSystemEvent(TOMBSTONE_EVENT_TYPE, "application/octet-stream", NO_BYTES);
    this.#stageRecord(stream, undefined, event);
    this.#states.set(stream, { ...state, isTombstoned: true });
    return { outcome: "written", revision: state.lastRevision, position: this.#position };
  }

  /** Makes a soft-deleted stream readable again from `firstRevision`. Earlier events stay hidden. */
  #stageRestoration(stream: string, firstRevision: number): void {
    const data = encodeRestoration(this.#findMetadata(stream) ?? EMPTY_METADATA, firstRevision);
    if (data !== undefined) this.#stageMetadata(stream, data);
  }

  #stageMetadata(stream: string, data: Uint8Array): WriteResult {
    const event = createSystemEvent(METADATA_EVENT_TYPE, "application/json", data);
    const writeResult = this.#stageEvents(getMetadataStream(stream), [event]);
    this.#applyMetadata(stream, event);
    return writeResult;
  }

  #applyMetadata(stream: string, event: ProposedEvent): void {
    this.#states.set(stream, { ...this.#getState(stream), ...parseMetadata(event) });
    this.#metadata.set(stream, event.data);
  }

  #stageEvents(stream: string, events: readonly ProposedEvent[]): WriteResult {
    const state = this.#getState(stream);
    let revision = state.lastRevision;
    if (events.length === 0) {
      const lastRevision = state.isTombstoned ? TOMBSTONE_REVISION : revision;
      return { outcome: "written", revision: lastRevision, position: this.#position };
    }
    for (const event of events) {
      revision += 1;
      this.#stageRecord(stream, revision, event);
      this.#stagedEvents.set(formatEventKey(stream, revision), { id: event.id, position: this.#position });
      if (this.#findEvent(event.id) === undefined) this.revisionsById.set(event.id, { stream, revision });
    }
    this.#states.set(stream, { ...state, lastRevision: revision });
    return { outcome: "written", revision, position: this.#position };
  }

  /** `revision` is undefined for a tombstone. */
  #stageRecord(stream: string, revision: number | undefined, event: ProposedEvent): void {
    this.#position = computePosition(this.#position, stream, event);
    const body = encodeRecord(event, {
      stream,
      revision: revision ?? TOMBSTONE_REVISION,
      position: this.#position,
      createdAt: this.#createdAt,
    });
    const ordinal = this.#index.eventCount + this.records.length;
    this.records.push({ ordinal, position: this.#position, revision, body });
  }

  #findStoredResult(stream: string, revision: number, state: StreamState): WriteResult {
    const isVisible = !state.isSoftDeleted && revision >= getFirstReadableRevision(stream, state);
    if (!isVisible) return { outcome: "written", revision, position: undefined };
    const stagedEvent = this.#stagedEvents.get(formatEventKey(stream, revision));
    const position = stagedEvent?.position ?? this.#index.findPosition(stream, revision);
    return { outcome: "written", revision, position };
  }

  #createHistory(stream: string): StreamHistory {
    return {
      findRecentRevision: (id) => {
        const recentEvent = this.#findEvent(id);
        return recentEvent?.stream === stream ? recentEvent.revision : undefined;
      },
      findEventId: (revision) =>
        this.#stagedEvents.get(formatEventKey(stream, revision))?.id ??
        this.#history.eventIds.get(formatEventKey(stream, revision)),
      hasMetadata: () => this.#hasMetadata(stream),
    };
  }

  /** Finds the first event with the id. Like EventStoreDB, ignores later events with this id. */
  #findEvent(id: string): StreamRevision | undefined {
    return this.#history.recentEvents.get(id) ?? this.revisionsById.get(id);
  }

  #getState(stream: string): StreamState {
    return this.#states.get(stream) ?? this.#index.getStreamState(stream);
  }

  #hasMetadata(stream: string): boolean {
    return this.#getState(getMetadataStream(stream)).lastRevision >= 0;
  }

  #findMetadata(stream: string): Uint8Array | undefined {
    return this.#metadata.get(stream) ?? this.#history.metadata.get(stream);
  }
}

function createSystemEvent(type: string, contentType: string, data: Uint8Array): ProposedEvent {
  return { id: randomUUID(), type, contentType, data, metadata: NO_BYTES };
}

export function formatEventKey(stream: string, revision: number): string {
  return `${revision} ${stream}`;
}
