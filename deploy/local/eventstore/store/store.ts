/**
 * The log on disk: ordered writes with group commit, and reads by stream and by position.
 *
 * Only the group commit changes the log. It decides a group on a staged copy of the state and stores the group with one
 * fsync. Only then it publishes the events to readers and acknowledges the writes. So no reader sees an event that a crash
 * could remove.
 */
import {
  LOG_BOUNDS,
  type LogBounds,
  MAX_CACHED_IDS,
  MAX_GROUP_BYTES,
  SEGMENT_BYTES,
} from "../model/limits.ts";
import { LogDamagedError } from "../model/log-errors.ts";
import type { StreamState } from "../model/stream-state.ts";
import { DiskFullError } from "../storage/disk-full.ts";
import type { OpenLog } from "../storage/events-directory.ts";
import { indexRecord } from "../storage/index-record.ts";
import type { CommittedLog } from "../storage/log-reader.ts";
import { GroupCommit, type NotWritten } from "./group-commit.ts";
import { openLogDirectory } from "./log-directory.ts";
import { Lru } from "./lru.ts";
import { RecentEvents } from "./recent-events.ts";
import {
  type CommittedState,
  StagedGroup,
  type Write,
  type WriteResult,
  type WrittenAt,
} from "./staged-group.ts";
import { StoredDetails } from "./stored-details.ts";

export interface StoreOptions {
  readonly dir: string;
  /** If true, the default, each write is flushed to disk before it is acknowledged. Only benchmarks disable this. */
  readonly sync?: boolean;
  /** Receives lines for the operator. */
  readonly log?: (line: string) => void;
  /** Size in bytes at which a segment is full and the next segment starts. Tests use a small size. */
  readonly segmentBytes?: number;
  /** Limits of the whole log. Tests use small limits. */
  readonly bounds?: LogBounds;
}

export class Store {
  readonly log: CommittedLog;
  readonly recentEvents: RecentEvents;
  readonly #open: OpenLog;
  readonly #bounds: LogBounds;
  readonly #report: (line: string) => void;
  readonly #ids = new Lru<string, WrittenAt>(MAX_CACHED_IDS);
  readonly #listeners = new Set<() => void>();
  readonly #commits = new GroupCommit((writes) => this.#commitGroup(writes));
  #diskFull = false;

  private constructor(open: OpenLog, options: StoreOptions) {
    this.#open = open;
    this.#bounds = options.bounds ?? LOG_BOUNDS;
    this.#report = options.log ?? (() => undefined);
    this.log = open.log;
    this.recentEvents = new RecentEvents(open.log.index.position);
  }

  /**
   * Opens, migrates or creates the log in a directory, and verifies the whole log.
   *
   * @throws LogStartError if the log cannot be opened
   * @throws LogDamagedError if acknowledged data is missing or changed
   */
  static async open(options: StoreOptions): Promise<Store> {
    const open = await openLogDirectory(options.dir, {
      bounds: options.bounds ?? LOG_BOUNDS,
      log: options.log ?? (() => undefined),
      writer: { sync: options.sync ?? true, segmentBytes: options.segmentBytes ?? SEGMENT_BYTES },
    });
    return new Store(open, options);
  }

  /** Log position of the last committed event; 0 in an empty log. */
  get position(): number {
    return this.log.index.position;
  }

  /** Resolves with the error if a disk write fails, except on a full disk. The log then refuses all further writes. */
  get failed(): Promise<Error> {
    return this.#commits.failed;
  }

  /** Queues a write and returns its result, see GroupCommit.submit. */
  submit(write: Write, bytes: number, deadline: number): Promise<WriteResult | NotWritten> {
    return this.#commits.submit(write, bytes, deadline);
  }

  /** Returns the committed state of a stream. */
  stateOf(stream: string): StreamState {
    return this.log.index.stateOf(stream);
  }

  /** Calls the listener after each commit, until the returned function is called. */
  onCommit(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Refuses new writes and waits for the queued writes. */
  closeToWrites(): Promise<void> {
    return this.#commits.close();
  }

  /** Closes the files and unlocks the directory. */
  async close(): Promise<void> {
    await this.closeToWrites();
    await this.#open.close();
  }

  /** Commits a group in one or more frames, depending on its size. */
  async #commitGroup(writes: readonly Write[]): Promise<(WriteResult | NotWritten)[]> {
    const results: (WriteResult | NotWritten)[] = [];
    while (results.length < writes.length) {
      results.push(...(await this.#commitFrame(writes.slice(results.length))));
    }
    return results;
  }

  /** Commits as many of the writes as fit into one frame, at least one. Returns the result of each committed write. */
  async #commitFrame(writes: readonly Write[]): Promise<(WriteResult | NotWritten)[]> {
    const details = await StoredDetails.ofFirst(this.log, writes);
    const group = new StagedGroup(this.#stateWith(details), Date.now());
    const results: (WriteResult | NotWritten)[] = [];
    for (const write of details.writes) {
      if (group.bytes >= MAX_GROUP_BYTES) break;
      results.push(decide(group, write, details));
    }
    if (group.records.length === 0) return results;
    const refusal = await this.#write(group);
    if (refusal === undefined) return results;
    return details.writes.slice(0, results.length).map((write) => this.#decideAlone(write, details, refusal));
  }

  /** Decides a single write after its group could not be stored. A write that needs no space still gets its result. */
  #decideAlone(write: Write, details: StoredDetails, refusal: NotWritten): WriteResult | NotWritten {
    const group = new StagedGroup(this.#stateWith(details), Date.now());
    const result = decide(group, write, details);
    return group.records.length === 0 ? result : refusal;
  }

  /** Stores and publishes a group. If the log or the disk is full, changes nothing and returns the reason. */
  async #write(group: StagedGroup): Promise<NotWritten | undefined> {
    if (this.#exceedsBounds(group)) return { outcome: "log-full" };
    try {
      this.#publish(group, await this.#open.writer.append(group.records));
    } catch (error) {
      if (!(error instanceof DiskFullError)) throw error;
      if (!this.#diskFull) {
        this.#report(`The disk is full. Appends fail until there is space. Reads continue. ${error.message}`);
      }
      this.#diskFull = true;
      return { outcome: "disk-full" };
    }
    if (this.#diskFull) this.#report("The disk has space again. Appends succeed.");
    this.#diskFull = false;
    return undefined;
  }

  #publish(group: StagedGroup, offsets: readonly number[]): void {
    const { index } = this.log;
    const { segment, offset } = this.#open.writer.end;
    while (index.segments < segment) index.startSegment();
    for (const [at, record] of group.records.entries()) {
      const problem = indexRecord(index, record, offsets[at] ?? 0);
      if (problem !== undefined) throw new LogDamagedError(`The written group is out of order: ${problem}`);
    }
    index.setSegmentEnd(offset);
    for (const [id, at] of group.ids) this.#ids.set(id, at);
    this.recentEvents.push(group.records.map(({ position, body }) => ({ position, record: body })));
    for (const listener of this.#listeners) listener();
  }

  #stateWith(details: StoredDetails): CommittedState {
    const { index } = this.log;
    return {
      events: index.events,
      position: index.position,
      stateOf: (stream) => index.stateOf(stream),
      positionOf: (stream, revision) => {
        const ordinal = index.ordinalOf(stream, revision);
        return ordinal === undefined ? undefined : index.positionOf(ordinal);
      },
      idAt: (stream, revision) => details.idAt(stream, revision),
      metadataOf: (stream) => details.metadataOf(stream),
      recentId: (id) => this.#ids.get(id),
    };
  }

  #exceedsBounds(group: StagedGroup): boolean {
    const { index } = this.log;
    const { events, streams, segments } = this.#bounds;
    const created = [...group.streams].filter((stream) => !index.hasStream(stream)).length;
    return (
      index.events + group.records.length > events ||
      index.streams + created > streams ||
      this.#open.writer.nextSegment > segments
    );
  }
}

function decide(group: StagedGroup, write: Write, details: StoredDetails): WriteResult | NotWritten {
  const damaged = details.damaged.get(write);
  return damaged === undefined ? group.apply(write) : { outcome: "damaged", reason: damaged };
}
