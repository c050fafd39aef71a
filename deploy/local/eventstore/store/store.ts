import { LRUCache } from "lru-cache";
import { DiskFullError, LogDamagedError } from "../model/log-errors.ts";
import { decodeProposedEvent, type LogEvent } from "../model/record.ts";
import { getMetadataStream, getOriginalStream, type StreamState } from "../model/stream-metadata.ts";
import { type OpenLog, openLogDirectory } from "../storage/log-directory.ts";
import { findFirstIndex, indexRecord } from "../storage/log-index.ts";
import { type CommittedLog, readStreamEvents } from "../storage/log-reader.ts";
import type { LogOptions } from "../storage/log-writer.ts";
import { GroupCommit, type WriteOutcome, type WriteRefusal } from "./group-commit.ts";
import {
  formatEventKey,
  StagedGroup,
  type StoredHistory,
  type StreamRevision,
  type WriteRequest,
} from "./staged-group.ts";

/**
 * Maximum number of event ids kept to recognise retries of appends without an exact revision. The oldest ids are
 * dropped.
 */
const MAX_CACHED_IDS = 100_000;

/** Maximum number of new events kept in memory for live subscriptions. The oldest events are dropped. */
export const MAX_RECENT_EVENTS = 4096;

/** Maximum size of the new events kept in memory for live subscriptions. The oldest events are dropped. */
export const MAX_RECENT_BYTES = 8 * 1024 * 1024;

/**
 * The log on disk: ordered writes with group commit, and reads by stream and by position.
 *
 * Only the group commit changes the log. It applies a group to a copy of the state and stores the group with one fsync.
 * Only then are the events published to readers and the writes acknowledged. So no reader sees an event that a crash
 * could remove.
 */

export interface StoreOptions extends Partial<LogOptions> {
  /** A missing directory is created. */
  readonly dir: string;
}

export class Store {
  readonly log: CommittedLog;
  readonly recentEvents: RecentEvents;
  readonly printLine: (line: string) => void;
  readonly #openLog: OpenLog;
  readonly #recentIds = new LRUCache<string, StreamRevision>({ max: MAX_CACHED_IDS });
  readonly #listeners = new Set<() => void>();
  readonly #groupCommit = new GroupCommit((writes) => this.#commitGroup(writes));
  #isDiskFull = false;

  private constructor(openLog: OpenLog, { printLine }: LogOptions) {
    this.#openLog = openLog;
    this.printLine = printLine;
    this.log = openLog.log;
    this.recentEvents = new RecentEvents(openLog.log.index.lastPosition);
  }

  /**
   * Opens or creates the log in a directory, and verifies the whole log.
   *
   * @throws LogStartError if the log cannot be opened
   * @throws LogDamagedError if acknowledged data is missing or changed
   */
  static async open({ dir, ...givenOptions }: StoreOptions): Promise<Store> {
    const options = { shouldSync: true, printLine: () => undefined, ...givenOptions };
    return new Store(await openLogDirectory(dir, options), options);
  }

  /** 0 in an empty log. */
  get lastPosition(): number {
    return this.log.index.lastPosition;
  }

  /**
   * Resolves with the error if a disk write fails for any reason except a full disk. The log then refuses all further
   * writes.
   */
  get failurePromise(): Promise<Error> {
    return this.#groupCommit.failurePromise;
  }

  submit(request: WriteRequest, storedBytes: number, deadline: number): Promise<WriteOutcome> {
    return this.#groupCommit.submit(request, storedBytes, deadline);
  }

  /** A tombstone of a stream also applies to its metadata stream. */
  getStreamState(stream: string): StreamState {
    const { index } = this.log;
    const state = index.getStreamState(stream);
    const originalStream = getOriginalStream(stream);
    if (originalStream === undefined || !index.getStreamState(originalStream).isTombstoned) return state;
    return { ...state, isTombstoned: true };
  }

  /** The returned function removes the listener. */
  onCommit(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Refuses new writes and waits for the queued writes. */
  closeToWrites(): Promise<void> {
    return this.#groupCommit.close();
  }

  async close(): Promise<void> {
    await this.closeToWrites();
    await this.#openLog.close();
  }

  async #commitGroup(writes: readonly WriteRequest[]): Promise<WriteOutcome[]> {
    const history = await this.#readHistory(writes);
    const group = new StagedGroup(this.log.index, history, Date.now());
    const outcomes = writes.map((write) => group.stage(write));
    if (group.records.length === 0) return outcomes;
    const refusal = await this.#writeGroup(group);
    return refusal === undefined ? outcomes : writes.map(() => refusal);
  }

  async #readHistory(writes: readonly WriteRequest[]): Promise<StoredHistory> {
    const history: StoredHistory = { eventIds: new Map(), metadata: new Map(), recentEvents: this.#recentIds };
    const appends = writes.filter(({ kind }) => kind === "append");
    await Promise.all(
      appends.map(async (append) => {
        await this.#readIds(append, history.eventIds);
        await this.#readMetadata(append.stream, history.metadata);
      }),
    );
    return history;
  }

  /**
   * Reads the ids of the stored events after the expected revision, because the append rules use them to recognize a
   * retry. Stops at the first id that differs from the append, because the rules need no later ids.
   */
  async #readIds({ stream, expectedRevision, events }: WriteRequest, eventIds: Map<string, string>): Promise<void> {
    const { lastRevision } = this.log.index.getStreamState(stream);
    if (expectedRevision < -1 || expectedRevision >= lastRevision || events.length === 0) return;
    let revision = expectedRevision;
    const endRevision = Math.min(lastRevision, expectedRevision + events.length);
    for await (const page of readStreamEvents(this.log, stream, expectedRevision + 1, endRevision)) {
      for (const { record } of page) {
        revision += 1;
        const { id } = decodeProposedEvent(record);
        eventIds.set(formatEventKey(stream, revision), id);
        if (id !== events[revision - expectedRevision - 1]?.id) return;
      }
    }
  }

  async #readMetadata(stream: string, metadata: Map<string, Uint8Array>): Promise<void> {
    const metadataStream = getMetadataStream(stream);
    const { lastRevision } = this.log.index.getStreamState(metadataStream);
    if (!this.log.index.getStreamState(stream).isSoftDeleted || lastRevision < 0) return;
    for await (const page of readStreamEvents(this.log, metadataStream, lastRevision, lastRevision)) {
      for (const { record } of page) metadata.set(stream, decodeProposedEvent(record).data);
    }
  }

  /** Stores and publishes a group. If the disk is full, stores nothing and returns the refusal. */
  async #writeGroup(group: StagedGroup): Promise<WriteRefusal | undefined> {
    try {
      this.#publish(group, await this.#openLog.writer.append(group.records));
    } catch (error) {
      if (!(error instanceof DiskFullError)) throw error;
      if (!this.#isDiskFull) {
        this.printLine(`The disk is full. Appends fail until there is space. Reads continue. ${error.message}`);
      }
      this.#isDiskFull = true;
      return { outcome: "disk-full" };
    }
    if (this.#isDiskFull) this.printLine("The disk has space again. Appends work again.");
    this.#isDiskFull = false;
    return undefined;
  }

  #publish(group: StagedGroup, offsets: readonly number[]): void {
    const { index } = this.log;
    for (const [recordIndex, record] of group.records.entries()) {
      const problem = indexRecord(index, record, offsets[recordIndex] ?? 0);
      if (problem !== undefined) throw new LogDamagedError(`The written group is out of order: ${problem}`);
    }
    index.setEndOffset(this.#openLog.writer.end.offset);
    for (const [id, revision] of group.revisionsById) this.#recentIds.set(id, revision);
    this.recentEvents.push(group.records.map(({ position, body }) => ({ position, record: body })));
    for (const listener of this.#listeners) listener();
  }
}

/** Keeps the newest events in memory, so that live subscriptions need no disk reads. */
export class RecentEvents {
  #events: LogEvent[] = [];
  #bytes = 0;
  #droppedPosition: number;

  constructor(position: number) {
    this.#droppedPosition = position;
  }

  push(events: readonly LogEvent[]): void {
    for (const event of events) {
      this.#events.push(event);
      this.#bytes += event.record.length;
    }
    // Each trim moves all remaining elements. Trimming to half of the limits makes trims rare.
    if (this.#events.length > MAX_RECENT_EVENTS || this.#bytes > MAX_RECENT_BYTES) this.#trim();
  }

  /** Returns the events after a position, or undefined if some of them are no longer in memory. */
  findAfter(position: number): readonly LogEvent[] | undefined {
    if (position < this.#droppedPosition) return undefined;
    const events = this.#events;
    return events.slice(findFirstIndex(events.length, (index) => (events[index]?.position ?? 0) > position));
  }

  #trim(): void {
    let firstKeptIndex = this.#events.length;
    let keptBytes = 0;
    while (firstKeptIndex > 0 && this.#events.length - firstKeptIndex < MAX_RECENT_EVENTS / 2) {
      const recordBytes = this.#events[firstKeptIndex - 1]?.record.length ?? 0;
      if (keptBytes + recordBytes > MAX_RECENT_BYTES / 2) break;
      keptBytes += recordBytes;
      firstKeptIndex -= 1;
    }
    this.#droppedPosition = this.#events[firstKeptIndex - 1]?.position ?? this.#droppedPosition;
    this.#events = this.#events.slice(firstKeptIndex);
    this.#bytes = keptBytes;
  }
}
