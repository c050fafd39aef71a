import { createHash } from "node:crypto";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { ServerUnavailableError } from "../../../shared/runtime/run-service.ts";
import { AppendBatch, appendBatch, SoftDeletions } from "./copy-events.ts";
import type { CopyServer } from "./copy-server.ts";
import type { EncodedEvent, StoredEvent } from "./stored-event.ts";

export interface CopyProgress {
  phase: "compared" | "copied" | "verified";
  eventCount: number;
  /** Finished share of the phase; for the first two phases, share of the source. From 0 to 1. */
  share: number;
}

interface CopyOptions {
  source: CopyServer;
  target: CopyServer;
  /** If true, the logs are compared, and nothing is written. */
  verifyOnly: boolean;
  signal: AbortSignal;
  onProgress(progress: CopyProgress): void;
}

/** Number of events of a log, and the SHA-256 (hex) of their encodings. */
interface LogSummary {
  events: number;
  sha256: string;
}

export interface CopyResult {
  copied: number;
  /** The events of both logs; undefined if the run was interrupted. */
  summaries: { source: LogSummary; target: LogSummary } | undefined;
  /** Description of the first difference that a comparison found; undefined if the logs are equal so far. */
  difference: string | undefined;
}

interface EventPair {
  source: EncodedEvent | undefined;
  target: EncodedEvent | undefined;
}

/**
 * Copies a log to a target that is empty or holds the first events of the source. The copy has three phases. It
 * compares the events that the target already holds, appends the rest, and reads the appended events back. So a run
 * reads each log exactly once, and every run verifies the whole copy.
 *
 * Exactly one append is in progress at a time, and each append states the stream's exact revision. So at every moment
 * the target holds the first events of the source, in the same order, and a killed copy can be repeated.
 *
 * @throws {DomainError} if the target differs from the source, or an event cannot be reproduced
 * @throws {ServerUnavailableError}
 */
export async function copyLog(options: CopyOptions): Promise<CopyResult> {
  const { source, target, verifyOnly, signal, onProgress } = options;
  const [sourceDigest, targetDigest] = [createDigest(), createDigest()];
  const softDeletions = new SoftDeletions();
  let difference: string | undefined;
  let copied = 0;
  const report = (phase: CopyProgress["phase"], eventCount: number) =>
    onProgress({ phase, eventCount, share: Number(source.reader.position) / Number(source.endPosition) });

  /** Compares the logs. Without `verifyOnly`, returns the source's first event that the target lacks. */
  async function compare(): Promise<EncodedEvent | undefined> {
    for await (const pair of readPairs(source, target)) {
      if (signal.aborted || (!pair.target && !verifyOnly)) return pair.source;
      if (!pair.source || !pair.target?.encodedBytes.equals(pair.source.encodedBytes)) {
        difference ??= describeDifference(pair, targetDigest.count());
        if (!verifyOnly) throw new DomainError("target_differs", `the target is not a copy: ${difference}`);
      }
      if (pair.source) softDeletions.apply(pair.source);
      sourceDigest.add(pair.source);
      targetDigest.add(pair.target);
      report("compared", sourceDigest.count());
    }
    return undefined;
  }

  async function copy(firstEvent: EncodedEvent | undefined): Promise<void> {
    let batch = new AppendBatch();
    const append = async () => {
      await appendBatch(target, batch);
      for (const event of batch.events) sourceDigest.add(event);
      copied += batch.events.length;
      report("copied", copied);
      batch = new AppendBatch();
    };
    for (let event = firstEvent; event && !signal.aborted; event = await source.reader.next()) {
      softDeletions.requireCopyable(event);
      softDeletions.apply(event);
      if (batch.add(event)) continue;
      await append();
      batch.add(event);
    }
    if (!signal.aborted) await append();
  }

  async function verify(): Promise<void> {
    for (let eventCount = 1; !signal.aborted; eventCount += 1) {
      const event = await target.reader.next();
      if (!event) return;
      targetDigest.add(event);
      onProgress({ phase: "verified", eventCount, share: eventCount / copied });
    }
  }

  try {
    const firstEvent = await compare();
    if (!verifyOnly) {
      await copy(firstEvent);
      await verify();
    }
  } catch (error) {
    if (!(signal.aborted && error instanceof ServerUnavailableError)) throw error;
  }
  const summaries = signal.aborted ? undefined : { source: sourceDigest.finish(), target: targetDigest.finish() };
  return { copied, summaries, difference };
}

/** Reads both logs from where their readers are to the end, event by event. */
async function* readPairs(source: CopyServer, target: CopyServer): AsyncGenerator<EventPair, void> {
  let pair: EventPair | undefined;
  for (;;) {
    pair = {
      source: pair && !pair.source ? undefined : await source.reader.next(),
      target: pair && !pair.target ? undefined : await target.reader.next(),
    };
    if (!pair.source && !pair.target) return;
    yield pair;
  }
}

function createDigest() {
  const hash = createHash("sha256");
  let events = 0;
  return {
    count: () => events,
    add(event: EncodedEvent | undefined): void {
      if (!event) return;
      hash.update(event.encodedBytes);
      events += 1;
    },
    /** Returns the result. No more events can be added afterwards. */
    finish: (): LogSummary => ({ events, sha256: hash.digest("hex") }),
  };
}

/**
 * Describes the first difference between two logs.
 *
 * @param count number of equal events before the difference
 */
function describeDifference({ source, target }: EventPair, count: number): string {
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
