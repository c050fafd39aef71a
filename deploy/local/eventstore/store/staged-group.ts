import { randomUUID } from "node:crypto";
import { decideAppend, type History, NO_STREAM } from "../model/append-rules.ts";
import { encodeRecord, type ProposedEvent, positionAfter } from "../model/record.ts";
import { METADATA_TYPE, readMetadata, recreation, softDeletion } from "../model/stream-metadata.ts";
import { describedStream, metadataStreamOf, type StreamState } from "../model/stream-state.ts";
import { type StoredRecord, TOMBSTONE_REVISION } from "../storage/segment-format.ts";

/** A request to append events to a stream or to delete a stream. */
export interface Write {
  readonly kind: "append" | "soft-delete" | "tombstone";
  readonly stream: string;
  /** An exact revision, or one of NO_STREAM, ANY and STREAM_EXISTS. */
  readonly expected: number;
  readonly events: readonly ProposedEvent[];
}

/** Result of a write that was decided. */
export type WriteResult =
  /** `revision` is NO_STREAM after an empty append to a new stream. */
  | { readonly outcome: "written"; readonly revision: number; readonly position: number }
  | { readonly outcome: "wrong-revision"; readonly current: number }
  | { readonly outcome: "deleted" };

/** Stream and revision of an event. */
export interface WrittenAt {
  readonly stream: string;
  readonly revision: number;
}

/** Lookups in the committed log, on which the decisions about a group are based. */
export interface CommittedState {
  /** Number of events in the log. */
  readonly events: number;
  /** Position of the last event. */
  readonly position: number;
  stateOf(stream: string): StreamState;
  /** Returns the position of a stored event. */
  positionOf(stream: string, revision: number): number | undefined;
  /** Returns the id of a stored event. */
  idAt(stream: string, revision: number): string | undefined;
  /** Returns the data of the newest metadata event of a soft-deleted stream. */
  metadataOf(stream: string): Uint8Array | undefined;
  /** Returns stream and revision of a recently written event by its id. */
  recentId(id: string): WrittenAt | undefined;
}

const NOTHING = new Uint8Array(0);

/** A staged event, which later writes of the group may repeat as a retry. */
interface StagedEntry {
  readonly id: string;
  readonly position: number;
}

/**
 * A group of writes that is not on disk yet. It decides each write based on the committed state and the earlier writes of
 * the group, and collects the records to store. If the group cannot be stored, it is discarded. So the state in memory is
 * never ahead of the disk.
 */
export class StagedGroup {
  readonly #states = new Map<string, StreamState>();
  readonly ids = new Map<string, WrittenAt>();
  readonly records: StoredRecord[] = [];
  readonly #entries = new Map<string, StagedEntry>();
  readonly #metadata = new Map<string, Uint8Array>();
  readonly #committed: CommittedState;
  readonly #created: number;
  #position: number;
  #bytes = 0;

  /** @param created time of all events of the group, in milliseconds since 1970 */
  constructor(committed: CommittedState, created: number) {
    this.#committed = committed;
    this.#created = created;
    this.#position = committed.position;
  }

  /** Total size of the record bodies in bytes. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Names of all streams whose state the group changes. */
  get streams(): Iterable<string> {
    return this.#states.keys();
  }

  /** Decides a write and stages its records. */
  apply(write: Write): WriteResult {
    const state = this.#stateOf(write.stream);
    const ids = write.kind === "append" ? write.events.map((event) => event.id) : [randomUUID()];
    const decision = decideAppend(write.expected, ids, state, this.#history(write.stream));
    switch (decision.kind) {
      case "deleted":
        return { outcome: "deleted" };
      case "wrong-revision":
        return { outcome: "wrong-revision", current: decision.current };
      case "already-written":
        return this.#alreadyWritten(write.stream, decision.revision);
      case "write":
        return this.#write(write, state);
    }
  }

  #write(write: Write, state: StreamState): WriteResult {
    if (write.kind === "soft-delete") return this.#softDelete(write.stream, state);
    if (write.kind === "tombstone") return this.#tombstone(write.stream, state);
    const described = describedStream(write.stream);
    if (described !== undefined) return this.#appendMetadata(write, described);
    const result = this.#put(write.stream, write.events);
    if (state.softDeleted) this.#recreate(write.stream, state.last + 1);
    return result;
  }

  #appendMetadata(write: Write, described: string): WriteResult {
    const before = this.#stateOf(described);
    if (before.tombstoned) return { outcome: "deleted" };
    const result = this.#put(write.stream, write.events);
    const last = write.events.at(-1);
    if (last === undefined) return result;
    this.#describe(described, last);
    if (before.softDeleted) this.#recreate(described, before.last + 1);
    return result;
  }

  #softDelete(stream: string, state: StreamState): WriteResult {
    if (state.last < 0 && !this.#hasMetadata(stream)) {
      return { outcome: "wrong-revision", current: NO_STREAM };
    }
    return this.#putMetadata(stream, softDeletion());
  }

  #tombstone(stream: string, state: StreamState): WriteResult {
    const event: ProposedEvent = {
      id: randomUUID(),
      type: "$streamDeleted",
      contentType: "application/octet-stream",
      data: NOTHING,
      metadata: NOTHING,
    };
    this.#putRecord(stream, undefined, event);
    this.#states.set(stream, { ...state, tombstoned: true });
    return { outcome: "written", revision: state.last, position: this.#position };
  }

  /** Restores a soft-deleted stream. Events before `firstRevision` stay hidden. */
  #recreate(stream: string, firstRevision: number): void {
    this.#putMetadata(stream, recreation(this.#metadataOf(stream), firstRevision));
  }

  #putMetadata(stream: string, data: Uint8Array): WriteResult {
    const event: ProposedEvent = {
      id: randomUUID(),
      type: METADATA_TYPE,
      contentType: "application/json",
      data,
      metadata: NOTHING,
    };
    const result = this.#put(metadataStreamOf(stream), [event]);
    this.#describe(stream, event);
    return result;
  }

  /** Applies a metadata event to the state of the stream to which it belongs. */
  #describe(stream: string, event: ProposedEvent): void {
    this.#states.set(stream, { ...this.#stateOf(stream), ...readMetadata(event) });
    this.#metadata.set(stream, event.data);
  }

  #put(stream: string, events: readonly ProposedEvent[]): WriteResult {
    const state = this.#stateOf(stream);
    let revision = state.last;
    if (events.length === 0) return { outcome: "written", revision, position: this.#position };
    for (const event of events) {
      revision += 1;
      this.#putRecord(stream, revision, event);
      this.#entries.set(entryName(stream, revision), { id: event.id, position: this.#position });
      this.ids.set(event.id, { stream, revision });
    }
    this.#states.set(stream, { ...state, last: revision });
    return { outcome: "written", revision, position: this.#position };
  }

  /** Stages a record at the next position. `revision` is undefined for a tombstone. */
  #putRecord(stream: string, revision: number | undefined, event: ProposedEvent): void {
    this.#position = positionAfter(this.#position, stream, event);
    const body = encodeRecord(event, {
      stream,
      revision: revision ?? TOMBSTONE_REVISION,
      position: this.#position,
      created: this.#created,
    });
    const ordinal = this.#committed.events + this.records.length;
    this.records.push({ ordinal, position: this.#position, revision, body });
    this.#bytes += body.length;
  }

  #alreadyWritten(stream: string, revision: number): WriteResult {
    const staged = this.#entries.get(entryName(stream, revision));
    const position = staged?.position ?? this.#committed.positionOf(stream, revision);
    if (position === undefined)
      throw new Error(`The index does not contain revision ${revision} of the stream.`);
    return { outcome: "written", revision, position };
  }

  #history(stream: string): History {
    return {
      recent: (id) => {
        const at = this.ids.get(id) ?? this.#committed.recentId(id);
        return at?.stream === stream ? at.revision : undefined;
      },
      idAt: (revision) =>
        this.#entries.get(entryName(stream, revision))?.id ?? this.#committed.idAt(stream, revision),
      hasMetadata: () => this.#hasMetadata(stream),
    };
  }

  #stateOf(stream: string): StreamState {
    return this.#states.get(stream) ?? this.#committed.stateOf(stream);
  }

  #hasMetadata(stream: string): boolean {
    return this.#stateOf(metadataStreamOf(stream)).last >= 0;
  }

  #metadataOf(stream: string): Uint8Array | undefined {
    return this.#metadata.get(stream) ?? this.#committed.metadataOf(stream);
  }
}

function entryName(stream: string, revision: number): string {
  return `${revision} ${stream}`;
}
