/**
 * Collects waiting writes into groups and commits one group at a time. So one fsync commits all writes that arrived
 * during the previous fsync.
 */
import type { WriteRequest, WriteResult } from "./staged-group.ts";

/** Maximum number of writes that wait for the disk. Further writes fail with a timeout error. */
export const MAX_PENDING_WRITES = 8192;

/** Maximum total size of the writes that wait for the disk. Further writes fail with a timeout error. */
export const MAX_PENDING_BYTES = 64 * 1024 * 1024;

/** Maximum number of writes in one group. Further writes wait for the next group. */
export const MAX_GROUP_WRITES = 1024;

/**
 * Size in bytes at which a group is full. The last write may exceed this size. Further writes wait for the next group.
 */
const MAX_GROUP_BYTES = 4 * 1024 * 1024;

export type WriteRefusal =
  /** The deadline passed before the write started. */
  | { readonly outcome: "expired" }
  | { readonly outcome: "overloaded" }
  | { readonly outcome: "closing" }
  | { readonly outcome: "disk-full" };

export type WriteOutcome = WriteResult | WriteRefusal;

interface PendingWrite {
  readonly request: WriteRequest;
  readonly storedBytes: number;
  readonly deadline: number;
  readonly resolve: (outcome: WriteOutcome) => void;
  readonly reject: (error: unknown) => void;
}

/** Returns one result per write, in order. Rejects if an error forces the log to stop. */
type CommitGroup = (writes: readonly WriteRequest[]) => Promise<readonly WriteOutcome[]>;

export class GroupCommit {
  readonly #commitGroup: CommitGroup;
  #pendingWrites: PendingWrite[] = [];
  #pendingBytes = 0;
  #currentRun: Promise<void> | undefined;
  #isClosing = false;
  #failure: Error | undefined;
  #reportFailure: (failure: Error) => void = () => undefined;

  readonly failurePromise = new Promise<Error>((resolve) => {
    this.#reportFailure = resolve;
  });

  constructor(commit: CommitGroup) {
    this.#commitGroup = commit;
  }

  /**
   * Queues a write and returns its result. Rejects if the disk failed. The outcome of the write is then unknown until
   * the next start of the log.
   *
   * @param storedBytes size of the write
   * @param deadline time in milliseconds since 1970; if the write has not started by then, it expires
   */
  submit(request: WriteRequest, storedBytes: number, deadline: number): Promise<WriteOutcome> {
    if (this.#failure !== undefined) return Promise.reject(this.#failure);
    if (this.#isClosing) return Promise.resolve({ outcome: "closing" });
    if (this.#pendingWrites.length >= MAX_PENDING_WRITES || this.#pendingBytes + storedBytes > MAX_PENDING_BYTES) {
      return Promise.resolve({ outcome: "overloaded" });
    }
    return new Promise((resolve, reject) => {
      this.#pendingWrites.push({ request, storedBytes, deadline, resolve, reject });
      this.#pendingBytes += storedBytes;
      this.#currentRun ??= this.#run();
    });
  }

  /** Refuses new writes and waits for the queued writes. */
  async close(): Promise<void> {
    this.#isClosing = true;
    await this.#currentRun;
  }

  async #run(): Promise<void> {
    // Waits one turn of the event loop, so that other requests of this turn can join the first group.
    await new Promise((resolve) => setImmediate(resolve));
    while (this.#pendingWrites.length > 0) await this.#runGroup(this.#takeGroup(Date.now()));
    this.#currentRun = undefined;
  }

  async #runGroup(group: readonly PendingWrite[]): Promise<void> {
    if (group.length === 0) return;
    try {
      const outcomes = await this.#commitGroup(group.map((pendingWrite) => pendingWrite.request));
      for (const [index, pendingWrite] of group.entries()) {
        const outcome = outcomes[index];
        if (outcome === undefined) throw new Error("A write of the group has no result.");
        pendingWrite.resolve(outcome);
      }
    } catch (error) {
      this.#fail(error instanceof Error ? error : new Error(String(error)), group);
    }
  }

  /** Rejects all current and later writes, because the state of the disk is unknown after a failure. */
  #fail(failure: Error, group: readonly PendingWrite[]): void {
    this.#failure = failure;
    this.#reportFailure(failure);
    for (const pendingWrite of [...group, ...this.#pendingWrites]) pendingWrite.reject(failure);
    this.#pendingWrites = [];
    this.#pendingBytes = 0;
  }

  #takeGroup(now: number): PendingWrite[] {
    const group: PendingWrite[] = [];
    let groupBytes = 0;
    let takenCount = 0;
    for (const pendingWrite of this.#pendingWrites) {
      if (group.length >= MAX_GROUP_WRITES || groupBytes >= MAX_GROUP_BYTES) break;
      takenCount += 1;
      this.#pendingBytes -= pendingWrite.storedBytes;
      if (pendingWrite.deadline <= now) {
        pendingWrite.resolve({ outcome: "expired" });
        continue;
      }
      groupBytes += pendingWrite.storedBytes;
      group.push(pendingWrite);
    }
    this.#pendingWrites = this.#pendingWrites.slice(takenCount);
    return group;
  }
}
