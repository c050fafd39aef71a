/** Adds a stored record to the index, with what it says about reading its stream. */

import { proposedEventOf, streamOf } from "../model/record.ts";
import { readMetadata } from "../model/stream-metadata.ts";
import { describedStream } from "../model/stream-state.ts";
import type { LogIndex } from "./log-index.ts";
import type { StoredRecord } from "./segment-format.ts";

/**
 * The start of the log and each commit use this one function, so both build the same index.
 *
 * @param offset where the record is in the segment that was started last
 * @returns a sentence if the record does not follow the ones before; undefined if it was added
 */
export function indexRecord(index: LogIndex, record: StoredRecord, offset: number): string | undefined {
  const stream = streamOf(record.body);
  const problem = index.add(stream, record, offset);
  if (problem !== undefined) return problem;
  const described = describedStream(stream);
  if (described === undefined) return undefined;
  try {
    index.describe(described, readMetadata(proposedEventOf(record.body)));
    return undefined;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
