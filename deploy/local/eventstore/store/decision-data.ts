import { MAX_GROUP_BYTES } from "../model/limits.ts";
import { LogDamagedError } from "../model/log-errors.ts";
import { decodeProposedEvent } from "../model/record.ts";
import { getMetadataStream, getOriginalStream } from "../model/stream-state.ts";
import { type CommittedLog, readStreamEvents } from "../storage/log-reader.ts";
import type { WriteRequest } from "./staged-group.ts";

/** Maximum number of parallel lookups. Each lookup keeps at most one page of events in memory. */
const MAX_PARALLEL_LOOKUPS = 8;

/**
 * Stored data that is needed to accept or refuse a group of writes. It contains event ids, to recognise retries, and
 * the metadata of soft-deleted streams. All other necessary data is in the index.
 */
export class DecisionData {
  readonly #eventIds = new Map<string, Map<number, string>>();
  readonly #metadata = new Map<string, Uint8Array>();
  /** Writes that can be neither accepted nor refused, because the decision depends on a damaged event. */
  readonly damagedWrites = new Map<WriteRequest, LogDamagedError>();

  #metadataBytes = 0;
  #writes: readonly WriteRequest[] = [];

  /**
   * Reads the stored data for the writes of a group. Stops early if the metadata becomes too large.
   */
  static async read(log: CommittedLog, writes: readonly WriteRequest[]): Promise<DecisionData> {
    const decisionData = new DecisionData();
    const indexes = [...writes.keys()].filter((index) => needsLookup(log, writes[index]));
    let start = 0;
    for (; start < indexes.length && decisionData.#metadataBytes < MAX_GROUP_BYTES; start += MAX_PARALLEL_LOOKUPS) {
      const batch = indexes.slice(start, start + MAX_PARALLEL_LOOKUPS);
      await Promise.all(batch.map((index) => decisionData.#lookUp(log, writes[index])));
    }
    decisionData.#writes = writes.slice(0, indexes[start]);
    return decisionData;
  }

  /** The writes for which the stored data was read: all writes of the group, or only the first ones. */
  get writes(): readonly WriteRequest[] {
    return this.#writes;
  }

  findEventId(stream: string, revision: number): string | undefined {
    return this.#eventIds.get(stream)?.get(revision);
  }

  findMetadata(stream: string): Uint8Array | undefined {
    return this.#metadata.get(stream);
  }

  async #lookUp(log: CommittedLog, request: WriteRequest | undefined): Promise<void> {
    if (request === undefined) return;
    try {
      await this.#readIds(log, request);
      await this.#readMetadata(log, request.stream);
    } catch (error) {
      if (!(error instanceof LogDamagedError)) throw error;
      this.damagedWrites.set(request, error);
    }
  }

  /** Reads stored ids up to the first id that differs from the write. The append rules do not need any later ids. */
  async #readIds(log: CommittedLog, { stream, expectedRevision, events }: WriteRequest): Promise<void> {
    if (!expectsEarlierRevision(log, stream, expectedRevision) || events.length === 0) return;
    const knownIds = this.#eventIds.get(stream) ?? new Map<number, string>();
    this.#eventIds.set(stream, knownIds);
    const lastRevision = Math.min(log.index.getStreamState(stream).lastRevision, expectedRevision + events.length);
    let revision = expectedRevision;
    for await (const page of readStreamEvents(log, stream, expectedRevision + 1, lastRevision)) {
      for (const { record } of page) {
        revision += 1;
        const { id } = decodeProposedEvent(record);
        knownIds.set(revision, id);
        if (id !== events[revision - expectedRevision - 1]?.id) return;
      }
    }
  }

  async #readMetadata(log: CommittedLog, stream: string): Promise<void> {
    const { lastRevision } = log.index.getStreamState(getMetadataStream(stream));
    if (!log.index.getStreamState(stream).isSoftDeleted || lastRevision < 0) return;
    for await (const page of readStreamEvents(log, getMetadataStream(stream), lastRevision, lastRevision)) {
      for (const { record } of page) {
        // Copies the data, because a view would keep the whole page in memory.
        const data = Uint8Array.from(decodeProposedEvent(record).data);
        this.#metadata.set(stream, data);
        this.#metadataBytes += data.length;
      }
    }
  }
}

function needsLookup(log: CommittedLog, request: WriteRequest | undefined): boolean {
  if (request?.kind !== "append") return false;
  const { stream, expectedRevision } = request;
  if (expectsEarlierRevision(log, stream, expectedRevision)) return true;
  return getOriginalStream(stream) === undefined && log.index.getStreamState(stream).isSoftDeleted;
}

/**
 * Returns true if a write expects a revision before the stream's last revision. The stored ids then show whether the
 * write is a retry.
 */
function expectsEarlierRevision(log: CommittedLog, stream: string, expectedRevision: number): boolean {
  return expectedRevision >= -1 && expectedRevision < log.index.getStreamState(stream).lastRevision;
}
