import { decodeProposedEvent, readStreamName } from "../model/record.ts";
import { parseMetadata } from "../model/stream-metadata.ts";
import { getOriginalStream } from "../model/stream-state.ts";
import type { LogIndex } from "./log-index.ts";
import type { StoredRecord } from "./segment-format.ts";

/**
 * Adds a stored record to the index. A metadata record also changes the state of the stream that it describes.
 *
 * @param offset offset of the record in the last segment
 * @returns undefined on success; otherwise a sentence that states why the record cannot follow the previous record
 */
export function indexRecord(index: LogIndex, record: StoredRecord, offset: number): string | undefined {
  const stream = readStreamName(record.body);
  const problem = index.add(stream, record, offset);
  if (problem !== undefined) return problem;
  const originalStream = getOriginalStream(stream);
  if (originalStream === undefined) return undefined;
  try {
    index.streams.applyEffect(originalStream, parseMetadata(decodeProposedEvent(record.body)));
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
