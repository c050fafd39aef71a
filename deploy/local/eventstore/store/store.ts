/**
 * The log on disk: ordered writes with group commit, and reads by stream and by position.
 *
 * Only the group commit changes the log. It applies a group to a copy of the state and stores the group with one fsync.
 * Only then are the events published to readers and the writes acknowledged. So no reader sees an event that a crash
 * could remove.
 */

import { LRUCache } from "lru-cache";
import { type LogLimits, MAX_CACHED_IDS, MAX_GROUP_BYTES } from "../model/limits.ts";
import { LogDamagedError } from "../model/log-errors.ts";
import { DEFAULT_LOG_OPTIONS, type LogOptions } from "../model/log-options.ts";
import { getOriginalStream, type StreamState } from "../model/stream-state.ts";
import { DiskFullError } from "../storage/disk-full.ts";
import type { OpenLog } from "../storage/events-directory.ts";
import { indexRecord } from "../storage/index-record.ts";
import type { CommittedLog } from "../storage/log-reader.ts";
import { DecisionData } from "./decision-data.ts";
import { GroupCommit, type WriteOutcome, type WriteRefusal } from "./group-commit.ts";
import { openLogDirectory } from "./log-directory.ts";
import { RecentEvents } from "./recent-events.ts";
import { type CommittedState, StagedGroup, type StreamRevision, type WriteRequest } from "./staged-group.ts";

export interface StoreOptions extends Partial<LogOptions> {
  /** Directory of the log. A missing directory is created. */
  readonly dir: string;
}

export class Store {
  readonly log: CommittedLog;
  readonly recentEvents: RecentEvents;
  readonly printLine: (line: string) => void;
  readonly #openLog: OpenLog;
  readonly #limits: LogLimits;
  readonly #recentIds = new LRUCache<string, StreamRevision>({ max: MAX_CACHED_IDS });
  readonly #listeners = new Set<() => void>();
  readonly #groupCommit = new GroupCommit((writes) => this.#commitGroup(writes));
  #isDiskFull = false;

  private constructor(openLog: OpenLog, { limits, printLine }: LogOptions) {
    this.#openLog = openLog;
    this.#limits = limits;
    this.printLine = printLine;
    this.log = openLog.log;
    this.recentEvents = new RecentEvents(openLog.log.index.lastPosition);
  }

  /**
   * Opens, migrates or creates the log in a directory, and verifies the whole log.
   *
   * @throws LogStartError if the log cannot be opened
   * @throws LogDamagedError if acknowledged data is missing or changed
   */
  static async open({ dir, ...givenOptions }: StoreOptions): Promise<Store> {
    const options = { ...DEFAULT_LOG_OPTIONS, ...givenOptions };
    return new Store(await openLogDirectory(dir, options), options);
  }

  /** Log position of the last committed event; 0 in an empty log. */
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

  /** Queues a write and returns its result. See GroupCommit.submit. */
  submit(request: WriteRequest, storedBytes: number, deadline: number): Promise<WriteOutcome> {
    return this.#groupCommit.submit(request, storedBytes, deadline);
  }

  /** Returns the committed state of a stream. A tombstone of a stream also applies to its metadata stream. */
  getStreamState(stream: string): StreamState {
    const { index } = this.log;
    const state = index.getStreamState(stream);
    const originalStream = getOriginalStream(stream);
    if (originalStream === undefined || !index.getStreamState(originalStream).isTombstoned) return state;
    return { ...state, isTombstoned: true };
  }

  /** Calls the listener after each commit. The returned function removes the listener. */
  onCommit(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Refuses new writes and waits for the queued writes. */
  closeToWrites(): Promise<void> {
    return this.#groupCommit.close();
  }

  /** Closes the files and unlocks the directory. */
  async close(): Promise<void> {
    await this.closeToWrites();
    await this.#openLog.close();
  }

  /** Commits a group in one or more frames, depending on its size. */
  async #commitGroup(writes: readonly WriteRequest[]): Promise<WriteOutcome[]> {
    const outcomes: WriteOutcome[] = [];
    while (outcomes.length < writes.length) {
      outcomes.push(...(await this.#commitFrame(writes.slice(outcomes.length))));
    }
    return outcomes;
  }

  /** Processes the first writes of a group, up to the limit of a frame. Returns their results. */
  async #commitFrame(writes: readonly WriteRequest[]): Promise<WriteOutcome[]> {
    const decisionData = await DecisionData.read(this.log, writes);
    const group = new StagedGroup(this.#createCommittedState(decisionData), Date.now());
    const outcomes: WriteOutcome[] = [];
    for (const write of decisionData.writes) {
      if (group.bytes >= MAX_GROUP_BYTES) break;
      outcomes.push(decideWrite(group, write, decisionData));
    }
    if (group.records.length === 0) return outcomes;
    const refusal = await this.#writeGroup(group);
    if (refusal === undefined) return outcomes;
    return decisionData.writes
      .slice(0, outcomes.length)
      .map((write) => this.#decideSingle(write, decisionData, refusal));
  }

  /**
   * Determines the result of a write whose group could not be stored. A write that stores no records, such as a retry,
   * still gets its own result.
   */
  #decideSingle(request: WriteRequest, decisionData: DecisionData, refusal: WriteRefusal): WriteOutcome {
    const group = new StagedGroup(this.#createCommittedState(decisionData), Date.now());
    const outcome = decideWrite(group, request, decisionData);
    return group.records.length === 0 ? outcome : refusal;
  }

  /** Stores and publishes a group. If the log or the disk is full, changes nothing and returns the reason. */
  async #writeGroup(group: StagedGroup): Promise<WriteRefusal | undefined> {
    if (this.#exceedsLimits(group)) return { outcome: "log-full" };
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
    const { segment, offset } = this.#openLog.writer.end;
    while (index.segmentCount < segment) index.startSegment();
    for (const [recordIndex, record] of group.records.entries()) {
      const problem = indexRecord(index, record, offsets[recordIndex] ?? 0);
      if (problem !== undefined) throw new LogDamagedError(`The written group is out of order: ${problem}`);
    }
    index.setSegmentEnd(offset);
    for (const [id, revision] of group.revisionsById) this.#recentIds.set(id, revision);
    this.recentEvents.push(group.records.map(({ position, body }) => ({ position, record: body })));
    for (const listener of this.#listeners) listener();
  }

  #createCommittedState(decisionData: DecisionData): CommittedState {
    const { index } = this.log;
    return {
      eventCount: index.eventCount,
      lastPosition: index.lastPosition,
      getStreamState: (stream) => index.getStreamState(stream),
      findPosition: (stream, revision) => {
        const ordinal = index.findOrdinal(stream, revision);
        return ordinal === undefined ? undefined : index.getPosition(ordinal);
      },
      findEventId: (stream, revision) => decisionData.findEventId(stream, revision),
      findMetadata: (stream) => decisionData.findMetadata(stream),
      findRecentEvent: (id) => this.#recentIds.get(id),
    };
  }

  #exceedsLimits(group: StagedGroup): boolean {
    const { index } = this.log;
    const { maxEvents, maxStreams, maxSegments } = this.#limits;
    const newStreamCount = [...group.streams].filter((stream) => !index.streams.has(stream)).length;
    return (
      index.eventCount + group.records.length > maxEvents ||
      index.streams.size + newStreamCount > maxStreams ||
      this.#openLog.writer.nextSegmentCount > maxSegments
    );
  }
}

function decideWrite(group: StagedGroup, request: WriteRequest, decisionData: DecisionData): WriteOutcome {
  const damage = decisionData.damagedWrites.get(request);
  return damage === undefined ? group.stage(request) : { outcome: "damaged", reason: damage };
}
