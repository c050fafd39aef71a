/**
 * Reads the stored data that the rules need for a group of writes: ids, to recognise retries, and the metadata of
 * soft-deleted streams. All other data is in the index.
 */

import { MAX_GROUP_BYTES } from "../model/limits.ts";
import { LogDamagedError } from "../model/log-errors.ts";
import { proposedEventOf } from "../model/record.ts";
import { describedStream, metadataStreamOf } from "../model/stream-state.ts";
import { type CommittedLog, readRevisions } from "../storage/log-reader.ts";
import type { Write } from "./staged-group.ts";

/** Writes whose data is read in parallel. Each holds at most one page of events in memory. */
const PARALLEL_LOOKUPS = 8;

export class StoredDetails {
  readonly #ids = new Map<string, Map<number, string>>();
  readonly #metadata = new Map<string, Uint8Array>();
  /** Writes that cannot be decided because a stored event that they need is damaged. */
  readonly damaged = new Map<Write, LogDamagedError>();

  #metadataBytes = 0;
  #writes: readonly Write[] = [];

  /** Reads the details of the first of these writes: of all, unless their metadata would take too much memory. */
  static async ofFirst(log: CommittedLog, writes: readonly Write[]): Promise<StoredDetails> {
    const details = new StoredDetails();
    const lookups = [...writes.keys()].filter((at) => needsLookup(log, writes[at]));
    let done = 0;
    for (; done < lookups.length && details.#metadataBytes < MAX_GROUP_BYTES; done += PARALLEL_LOOKUPS) {
      const batch = lookups.slice(done, done + PARALLEL_LOOKUPS);
      await Promise.all(batch.map((at) => details.#lookUp(log, writes[at])));
    }
    details.#writes = writes.slice(0, lookups[done]);
    return details;
  }

  /** The writes whose details have been read. */
  get writes(): readonly Write[] {
    return this.#writes;
  }

  idAt(stream: string, revision: number): string | undefined {
    return this.#ids.get(stream)?.get(revision);
  }

  metadataOf(stream: string): Uint8Array | undefined {
    return this.#metadata.get(stream);
  }

  async #lookUp(log: CommittedLog, write: Write | undefined): Promise<void> {
    if (write === undefined) return;
    try {
      await this.#readIds(log, write);
      await this.#readMetadata(log, write.stream);
    } catch (error) {
      if (!(error instanceof LogDamagedError)) throw error;
      this.damaged.set(write, error);
    }
  }

  /** Reads ids up to the first that differs, because the rules need no more. */
  async #readIds(log: CommittedLog, { stream, expected, events }: Write): Promise<void> {
    if (!isBehind(log, stream, expected) || events.length === 0) return;
    const known = this.#ids.get(stream) ?? new Map<number, string>();
    this.#ids.set(stream, known);
    const last = Math.min(log.index.stateOf(stream).last, expected + events.length);
    let revision = expected;
    for await (const page of readRevisions(log, stream, expected + 1, last)) {
      for (const { record } of page) {
        revision += 1;
        const { id } = proposedEventOf(record);
        known.set(revision, id);
        if (id !== events[revision - expected - 1]?.id) return;
      }
    }
  }

  async #readMetadata(log: CommittedLog, stream: string): Promise<void> {
    const { last } = log.index.stateOf(metadataStreamOf(stream));
    if (!log.index.stateOf(stream).softDeleted || last < 0) return;
    for await (const page of readRevisions(log, metadataStreamOf(stream), last, last)) {
      for (const { record } of page) {
        // A copy, since the data is a small part of the page that was read.
        const data = Uint8Array.from(proposedEventOf(record).data);
        this.#metadata.set(stream, data);
        this.#metadataBytes += data.length;
      }
    }
  }
}

function needsLookup(log: CommittedLog, write: Write | undefined): boolean {
  if (write?.kind !== "append") return false;
  const { stream, expected } = write;
  if (isBehind(log, stream, expected)) return true;
  return describedStream(stream) === undefined && log.index.stateOf(stream).softDeleted;
}

/** Tells whether a write expects a revision before the last one: then only stored ids show whether it is a retry. */
function isBehind(log: CommittedLog, stream: string, expected: number): boolean {
  return expected >= -1 && expected < log.index.stateOf(stream).last;
}
