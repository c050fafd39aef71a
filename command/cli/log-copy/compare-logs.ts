import { ServerUnavailableError } from "../../../shared/runtime/run-service.ts";
import type { CopyOptions } from "./copy-log.ts";
import { describeDifference, readPairs } from "./event-pairs.ts";
import { LogDigest, type LogSummary } from "./log-digest.ts";

export interface LogComparison {
  /** The events of both logs; undefined if the comparison was interrupted. */
  summaries: { source: LogSummary; target: LogSummary } | undefined;
  /** Description of the first difference; undefined if the logs are equal so far. */
  difference: string | undefined;
}

/**
 * Compares two logs completely, event by event. Writes nothing.
 *
 * @throws {ServerUnavailableError}
 */
export async function compareLogs({ source, target, signal, onProgress }: CopyOptions): Promise<LogComparison> {
  const digests = { source: new LogDigest(), target: new LogDigest() };
  let difference: string | undefined;
  try {
    for await (const pair of readPairs(source, target)) {
      if (signal.aborted) return { summaries: undefined, difference };
      const isEqual = pair.source && pair.target && pair.source.encodedBytes.equals(pair.target.encodedBytes);
      if (!isEqual) difference ??= describeDifference(pair, digests.source.count);
      if (pair.source) digests.source.add(pair.source.encodedBytes);
      if (pair.target) digests.target.add(pair.target.encodedBytes);
      const share = Number(source.reader.position) / Number(source.endPosition);
      onProgress({ phase: "compared", eventCount: digests.source.count, share });
    }
  } catch (error) {
    // An interruption cancels the reads.
    if (!(signal.aborted && error instanceof ServerUnavailableError)) throw error;
    return { summaries: undefined, difference };
  }
  return { summaries: { source: digests.source.finish(), target: digests.target.finish() }, difference };
}
