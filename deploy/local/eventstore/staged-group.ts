/**
 * One group of writes before it is on disk: decides each write in order on top of the committed state and of
 * the writes before it, and collects what the group puts into the database. Dropped where the write fails, so
 * that memory is never ahead of the disk.
 */
import { randomUUID } from "node:crypto";
import { decideAppend, type History, NO_STREAM } from "./append-rules.ts";
import { describedBy, encodeHead, type Head, metadataStreamOf } from "./head.ts";
import { eventKey, headKey, revisionKey } from "./keys.ts";
import { encodeIndexEntry, encodeRecord, type IndexEntry, type ProposedEvent } from "./record.ts";
import { METADATA_TYPE, readMetadata, recreation, softDeletion } from "./stream-metadata.ts";

/** A write as it comes to the log. */
export interface Write {
  readonly kind: "append" | "soft-delete" | "tombstone";
  readonly stream: string;
  /** A revision, or one of NO_STREAM, ANY, STREAM_EXISTS. */
  readonly expected: number;
  readonly events: readonly ProposedEvent[];
}

/** What became of a write. `revision` is NO_STREAM after an empty append to a new stream. */
export type WriteResult =
  | { readonly outcome: "written"; readonly revision: number; readonly position: number }
  | { readonly outcome: "wrong-revision"; readonly current: number }
  | { readonly outcome: "deleted" };

/** Where an event id was written. */
export interface WrittenAt {
  readonly stream: string;
  readonly revision: number;
}

/** The committed state below a group. Heads of all streams of the group are in memory before it starts. */
export interface CommittedState {
  readonly position: number;
  head(stream: string): Head;
  indexEntry(stream: string, revision: number): IndexEntry | undefined;
  eventData(position: number): Uint8Array | undefined;
  recentId(id: string): WrittenAt | undefined;
}

export interface StagedEvent {
  readonly position: number;
  readonly record: Buffer;
}

export interface PutOperation {
  readonly type: "put";
  readonly key: Buffer;
  readonly value: Buffer;
}

/** EventStoreDB gives a tombstone the largest 64-bit revision. */
const TOMBSTONE_REVISION = 9_223_372_036_854_775_807n;
const NOTHING = new Uint8Array(0);
const RECORD_OVERHEAD = 64;

export class StagedGroup {
  readonly heads = new Map<string, Head>();
  readonly ids = new Map<string, WrittenAt>();
  readonly events: StagedEvent[] = [];
  readonly #entries = new Map<string, IndexEntry>();
  readonly #metadata = new Map<string, Uint8Array>();
  readonly #puts: PutOperation[] = [];
  readonly #committed: CommittedState;
  readonly #created: number;
  #position: number;

  /** `created` is the time of the group in milliseconds since 1970. */
  constructor(committed: CommittedState, created: number) {
    this.#committed = committed;
    this.#created = created;
    this.#position = committed.position;
  }

  /** Position of the last event of the group, or the committed one where it has none. */
  get position(): number {
    return this.#position;
  }

  /** Everything that the group puts into the database. */
  operations(): PutOperation[] {
    const heads = [...this.heads].map(
      ([stream, head]): PutOperation => ({ type: "put", key: headKey(stream), value: encodeHead(head) }),
    );
    return [...this.#puts, ...heads];
  }

  /** Decides one write and stages it if it is to be written. */
  apply(write: Write): WriteResult {
    const head = this.#head(write.stream);
    const ids = write.kind === "append" ? write.events.map((event) => event.id) : [randomUUID()];
    const decision = decideAppend(write.expected, ids, head, this.#history(write.stream));
    switch (decision.kind) {
      case "deleted":
        return { outcome: "deleted" };
      case "wrong-revision":
        return { outcome: "wrong-revision", current: decision.current };
      case "already-written":
        return this.#alreadyWritten(write.stream, decision.revision);
      case "write":
        return this.#write(write, head);
    }
  }

  #write(write: Write, head: Head): WriteResult {
    if (write.kind === "soft-delete") return this.#softDelete(write.stream, head);
    if (write.kind === "tombstone") return this.#tombstone(write.stream, head);
    const described = describedBy(write.stream);
    if (described !== undefined) return this.#appendMetadata(write, described);
    const result = this.#put(write.stream, write.events);
    if (head.softDeleted) this.#recreate(write.stream, head.last + 1);
    return result;
  }

  #appendMetadata(write: Write, described: string): WriteResult {
    const before = this.#head(described);
    if (before.tombstoned) return { outcome: "deleted" };
    const result = this.#put(write.stream, write.events);
    const last = write.events.at(-1);
    if (last === undefined) return result;
    this.#describe(described, last);
    if (before.softDeleted) this.#recreate(described, before.last + 1);
    return result;
  }

  #softDelete(stream: string, head: Head): WriteResult {
    if (head.last < 0 && !this.#hasMetadata(stream)) {
      return { outcome: "wrong-revision", current: NO_STREAM };
    }
    return this.#putMetadata(stream, softDeletion());
  }

  #tombstone(stream: string, head: Head): WriteResult {
    const event: ProposedEvent = {
      id: randomUUID(),
      type: "$streamDeleted",
      contentType: "application/octet-stream",
      data: NOTHING,
      metadata: NOTHING,
    };
    this.#putRecord(stream, TOMBSTONE_REVISION, event);
    this.heads.set(stream, { ...head, tombstoned: true });
    return { outcome: "written", revision: head.last, position: this.#position };
  }

  /** Brings a soft-deleted stream back: its older events stay hidden. */
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

  /** Makes a metadata event take effect on the stream that it describes. */
  #describe(stream: string, event: ProposedEvent): void {
    this.heads.set(stream, { ...this.#head(stream), ...readMetadata(event) });
    this.#metadata.set(stream, event.data);
  }

  #put(stream: string, events: readonly ProposedEvent[]): WriteResult {
    const head = this.#head(stream);
    let revision = head.last;
    for (const event of events) {
      revision += 1;
      const size = this.#putRecord(stream, revision, event);
      const entry: IndexEntry = { position: this.#position, size, id: event.id };
      this.#puts.push({ type: "put", key: revisionKey(stream, revision), value: encodeIndexEntry(entry) });
      this.#entries.set(entryName(stream, revision), entry);
      this.ids.set(event.id, { stream, revision });
    }
    this.heads.set(stream, { ...head, last: revision });
    return { outcome: "written", revision, position: this.#position };
  }

  /** Gives the event the next position, which grows by what the event takes up, as an offset into a file. */
  #putRecord(stream: string, revision: number | bigint, event: ProposedEvent): number {
    const texts = stream.length + event.type.length;
    this.#position += RECORD_OVERHEAD + texts + event.data.length + event.metadata.length;
    const place = { stream, revision, position: this.#position, created: this.#created };
    const record = encodeRecord(event, place);
    this.#puts.push({ type: "put", key: eventKey(this.#position), value: record });
    this.events.push({ position: this.#position, record });
    return record.length;
  }

  #alreadyWritten(stream: string, revision: number): WriteResult {
    const entry = this.#entry(stream, revision);
    if (entry === undefined) throw new Error(`The index has no entry for revision ${revision} of a stream.`);
    return { outcome: "written", revision, position: entry.position };
  }

  #history(stream: string): History {
    return {
      recent: (id) => {
        const at = this.ids.get(id) ?? this.#committed.recentId(id);
        return at?.stream === stream ? at.revision : undefined;
      },
      idAt: (revision) => this.#entry(stream, revision)?.id,
      hasMetadata: () => this.#hasMetadata(stream),
    };
  }

  #entry(stream: string, revision: number): IndexEntry | undefined {
    return this.#entries.get(entryName(stream, revision)) ?? this.#committed.indexEntry(stream, revision);
  }

  #head(stream: string): Head {
    return this.heads.get(stream) ?? this.#committed.head(stream);
  }

  #hasMetadata(stream: string): boolean {
    return this.#head(metadataStreamOf(stream)).last >= 0;
  }

  #metadataOf(stream: string): Uint8Array | undefined {
    const staged = this.#metadata.get(stream);
    if (staged !== undefined) return staged;
    const metadataStream = metadataStreamOf(stream);
    const entry = this.#entry(metadataStream, this.#head(metadataStream).last);
    return entry === undefined ? undefined : this.#committed.eventData(entry.position);
  }
}

function entryName(stream: string, revision: number): string {
  return `${revision} ${stream}`;
}
