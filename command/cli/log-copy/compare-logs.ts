import { createHash } from "node:crypto";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { ServerUnavailableError } from "../../../shared/runtime/run-service.ts";
import type { CopyOptions, CopyServer } from "./copy-server.ts";
import type { EncodedEvent, StoredEvent } from "./stored-event.ts";

interface LogComparison {
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
    if (!(signal.aborted && error instanceof ServerUnavailableError)) throw error;
    return { summaries: undefined, difference };
  }
  return { summaries: { source: digests.source.finish(), target: digests.target.finish() }, difference };
}

interface EventPair {
  source: EncodedEvent | undefined;
  target: EncodedEvent | undefined;
}

/** Reads both logs from where their readers are to the end, event by event. */
export async function* readPairs(source: CopyServer, target: CopyServer): AsyncGenerator<EventPair, void> {
  let [hasSourceEnded, hasTargetEnded] = [false, false];
  for (;;) {
    const pair: EventPair = {
      source: hasSourceEnded ? undefined : await source.reader.next(),
      target: hasTargetEnded ? undefined : await target.reader.next(),
    };
    hasSourceEnded ||= !pair.source;
    hasTargetEnded ||= !pair.target;
    if (hasSourceEnded && hasTargetEnded) return;
    yield pair;
  }
}

/**
 * Describes the first difference between two logs.
 *
 * @param count number of equal events before the difference
 */
export function describeDifference({ source, target }: EventPair, count: number): string {
  if (!target)
    return `the target ends after ${formatCount(count, "event")}, but the source continues with ${describeEvent(source)}`;
  if (!source)
    return `the source ends after ${formatCount(count, "event")}, but the target continues with ${describeEvent(target)}`;
  return `after ${formatCount(count, "equal event")}, the source continues with ${describeEvent(source)}, but the target with ${describeEvent(target)}${describeContent(source, target)}`;
}

function describeEvent(event: StoredEvent | undefined): string {
  return `revision ${event?.revision} of stream ${event?.stream}`;
}

function describeContent(source: StoredEvent, target: StoredEvent): string {
  if (source.stream !== target.stream || source.revision !== target.revision) return "";
  const differingFields = (["id", "type", "contentType", "data", "metadata"] as const).filter((name) => {
    const [sourceValue, targetValue] = [source[name], target[name]];
    return Buffer.compare(Buffer.from(sourceValue), Buffer.from(targetValue)) !== 0;
  });
  return ` with another ${differingFields.join(", ")}`;
}

export interface LogSummary {
  events: number;
  sha256: string;
}

export class LogDigest {
  readonly #hash = createHash("sha256");
  #count = 0;

  get count(): number {
    return this.#count;
  }

  add(encodedEvent: Buffer): void {
    this.#hash.update(encodedEvent);
    this.#count += 1;
  }

  /** Returns the result. No more events can be added afterwards. */
  finish(): LogSummary {
    return { events: this.#count, sha256: this.#hash.digest("hex") };
  }
}
