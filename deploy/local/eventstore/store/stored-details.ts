import { MAX_GROUP_BYTES } from "../model/limits.ts";
import { LogDamagedError } from "../model/log-errors.ts";
import { proposedEventOf } from "../model/record.ts";
import { describedStream, metadataStreamOf } from "../model/stream-state.ts";
import { type CommittedLog, readRevisions } from "../storage/log-reader.ts";
import type { Write } from "./staged-group.ts";

/** Maximum number of parallel lookups. Each lookup keeps at most one page of events in memory. */
const PARALLEL_LOOKUPS = 8;

/**
 * Stored data on which the decisions about a group of writes depend: event ids, to recognise retries, and the metadata of
 * soft-deleted streams. All other data for decisions is in the index.
 */
export class StoredDetails {
  readonly #ids = new Map<string, Map<number, string>>();
  readonly #metadata = new Map<string, Uint8Array>();
  /** Writes that cannot be decided, because the decision depends on a damaged event. */
  readonly damaged = new Map<Write, LogDamagedError>();

  #metadataBytes = 0;
  #writes: readonly Write[] = [];

  /** Reads the stored data for the first writes of a group, or for all writes if the metadata is not too large. */
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

  /** The first writes of the group, for which all stored data was read. */
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

  /** Reads stored ids up to the first id that differs from the write. The append rules need no further ids. */
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
        // A copy, because a view would keep the whole page in memory.
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

/** Returns true if a write expects an earlier revision than the last. Stored ids then decide if the write is a retry. */
function isBehind(log: CommittedLog, stream: string, expected: number): boolean {
  return expected >= -1 && expected < log.index.stateOf(stream).last;
}
