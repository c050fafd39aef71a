/** Adds a stored record to the index, including the effect of metadata. */

import { proposedEventOf, streamOf } from "../model/record.ts";
import { readMetadata } from "../model/stream-metadata.ts";
import { describedStream } from "../model/stream-state.ts";
import type { LogIndex } from "./log-index.ts";
import type { StoredRecord } from "./segment-format.ts";

/**
 * Both the start of the log and each commit use this function, so they build the same index.
 *
 * @param offset offset of the record in the last segment
 * @returns a sentence that describes the problem if the record does not follow the record before; undefined if it was added
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
