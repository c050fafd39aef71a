/**
 * The log on disk: durable, ordered writes with group commit, and reads by stream and by position.
 *
 * Only the group commit changes anything. It decides a group on a staged copy of the state, writes it with one
 * fsync, and only then makes it visible and answers, so that nobody ever sees an event that a crash could take.
 */
import { type Database, openDatabase } from "./database.ts";
import { GroupCommit, type NotTried } from "./group-commit.ts";
import { decodeHead, type Head } from "./head.ts";
import { EVENTS_ABOVE, EVENTS_BELOW, eventKey, headKey, positionOfKey, revisionKey } from "./keys.ts";
import { MAX_CACHED_HEADS, MAX_CACHED_IDS } from "./limits.ts";
import { Lru } from "./lru.ts";
import { streams } from "./pb.ts";
import { decodeIndexEntry, type IndexEntry, wireOf } from "./record.ts";
import {
  type CommittedState,
  StagedGroup,
  type Write,
  type WriteResult,
  type WrittenAt,
} from "./staged-group.ts";
import { Tail } from "./tail.ts";

export interface StoreOptions {
  readonly dir: string;
  /** Whether a write is on disk before it is answered. Only measurements turn it off. */
  readonly sync: boolean;
}

export class Store {
  readonly database: Database;
  readonly tail: Tail;
  readonly #sync: boolean;
  readonly #heads = new Lru<string, Head>(MAX_CACHED_HEADS);
  readonly #ids = new Lru<string, WrittenAt>(MAX_CACHED_IDS);
  readonly #listeners = new Set<() => void>();
  readonly #commits = new GroupCommit((writes) => this.#commitGroup(writes));
  #position: number;

  private constructor(database: Database, position: number, sync: boolean) {
    this.database = database;
    this.tail = new Tail(position);
    this.#position = position;
    this.#sync = sync;
  }

  /**
   * Opens or creates the log in a directory.
   * @throws LogStartError where that is not possible.
   */
  static async open(options: StoreOptions): Promise<Store> {
    const database = await openDatabase(options.dir);
    return new Store(database, await lastPosition(database), options.sync);
  }

  /** Position of the last committed event; 0 in an empty log. */
  get position(): number {
    return this.#position;
  }

  /** Resolves with the reason if a write fails; the log then takes no more. */
  get failed(): Promise<Error> {
    return this.#commits.failed;
  }

  /** Queues a write; see GroupCommit.submit. */
  submit(write: Write, bytes: number, deadline: number): Promise<WriteResult | NotTried> {
    return this.#commits.submit(write, bytes, deadline);
  }

  /** The committed head of a stream. */
  async head(stream: string): Promise<Head> {
    // Reads never fill the cache: a commit could pass between the read and the filling.
    return this.#heads.get(stream) ?? decodeHead(await this.database.get(headKey(stream)));
  }

  /** Calls the listener after each commit until the returned function is called. */
  onCommit(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  /** Answers the writes that wait and takes no more. */
  closeToWrites(): Promise<void> {
    return this.#commits.close();
  }

  /** Closes the database. */
  async close(): Promise<void> {
    await this.closeToWrites();
    await this.database.close();
  }

  async #commitGroup(writes: readonly Write[]): Promise<WriteResult[]> {
    const group = new StagedGroup(await this.#stateFor(writes), Date.now());
    const results = writes.map((write) => group.apply(write));
    const operations = group.operations();
    if (operations.length > 0) await this.database.batch(operations, { sync: this.#sync });
    this.#publish(group);
    return results;
  }

  #publish(group: StagedGroup): void {
    for (const [stream, head] of group.heads) this.#heads.set(stream, head);
    for (const [id, at] of group.ids) this.#ids.set(id, at);
    this.#position = group.position;
    this.tail.push(group.events);
    for (const listener of this.#listeners) listener();
  }

  /** The committed state, with the head of every stream that the writes touch in memory. */
  async #stateFor(writes: readonly Write[]): Promise<CommittedState> {
    const heads = await this.#headsFor(writes);
    return {
      position: this.#position,
      head: (stream) => heads.get(stream) ?? this.#headNow(stream, heads),
      indexEntry: (stream, revision) => this.#indexEntry(stream, revision),
      eventData: (position) => this.#eventData(position),
      recentId: (id) => this.#ids.get(id),
    };
  }

  async #headsFor(writes: readonly Write[]): Promise<Map<string, Head>> {
    const heads = new Map<string, Head>();
    const missing = new Set<string>();
    for (const { stream } of writes) {
      const head = this.#heads.get(stream);
      if (head === undefined) missing.add(stream);
      else heads.set(stream, head);
    }
    if (missing.size === 0) return heads;
    const values = await this.database.getMany([...missing].map(headKey));
    for (const [index, stream] of [...missing].entries()) heads.set(stream, decodeHead(values[index]));
    return heads;
  }

  /** The head of a stream that a write touches beside its own: metadata's, deletion's. */
  #headNow(stream: string, heads: Map<string, Head>): Head {
    const head = this.#heads.get(stream) ?? decodeHead(this.database.getSync(headKey(stream)));
    heads.set(stream, head);
    return head;
  }

  #indexEntry(stream: string, revision: number): IndexEntry | undefined {
    if (revision < 0) return undefined;
    const value = this.database.getSync(revisionKey(stream, revision));
    return value === undefined ? undefined : decodeIndexEntry(value);
  }

  #eventData(position: number): Uint8Array | undefined {
    const record = this.database.getSync(eventKey(position));
    if (record === undefined) return undefined;
    return streams.ReadResp.deserializeBinary(wireOf(record)).getEvent()?.getEvent()?.getData_asU8();
  }
}

async function lastPosition(database: Database): Promise<number> {
  const range = { gt: EVENTS_BELOW, lt: EVENTS_ABOVE, reverse: true, limit: 1 };
  for await (const key of database.keys(range)) return positionOfKey(key);
  return 0;
}
