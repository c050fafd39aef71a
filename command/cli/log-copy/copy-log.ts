import { createHash } from "node:crypto";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { DomainError } from "../../../shared/domain/domain-error.ts";
import { ServerUnavailableError } from "../../../shared/runtime/run-service.ts";
import type { CopiedLog } from "./copied-log.ts";
import type { EncodedEvent, StoredEvent } from "./stored-event.ts";

interface CopyOptions {
  source: CopiedLog;
  target: CopiedLog;
  /** If true, the logs are compared, and nothing is written. */
  verifyOnly: boolean;
  signal: AbortSignal;
  /** @param share fraction from 0 to 1: of the source; in the phase `verified`, of the copied events */
  onProgress(phase: "compared" | "copied" | "verified", eventCount: number, share: number): void;
}

export interface CopyResult {
  copied: number;
  /** Number of events in each log, and SHA-256 (hex) of all encoded events; undefined if the run was interrupted. */
  equal: { events: number; sha256: string } | undefined;
}

/**
 * Copies a log to a target that is empty or contains the first events of the source. The copy has three phases: it
 * compares the events that the target already contains, appends the rest, and reads the appended events back. Each run
 * reads both logs once, and verifies the whole copy.
 *
 * Only one append is in progress at a time, and it states the exact revision of the stream. Therefore, the target
 * always contains the first events of the source in the same order, and a killed copy can be continued.
 *
 * @throws {DomainError} if the target differs from the source, or an event cannot be reproduced
 * @throws {ServerUnavailableError}
 */
export async function copyLog(options: CopyOptions): Promise<CopyResult> {
  const { source, target, verifyOnly, signal, onProgress } = options;
  const hashes = { source: createHash("sha256"), target: createHash("sha256") };
  let [comparedCount, copiedCount] = [0, 0];

  /**
   * Compares the logs up to the end of the target. Returns the first event of the source that the target lacks, if any.
   */
  async function compare(): Promise<EncodedEvent | undefined> {
    while (!signal.aborted) {
      const pair = { source: await source.next(), target: await target.next() };
      if (!pair.target && (!pair.source || !verifyOnly)) return pair.source;
      if (!pair.source || !pair.target?.encodedBytes.equals(pair.source.encodedBytes))
        refuseTarget(describeDifference(pair.source, pair.target, comparedCount));
      for (const hash of [hashes.source, hashes.target]) hash.update(pair.source.encodedBytes);
      comparedCount += 1;
      onProgress("compared", comparedCount, source.share);
    }
    return undefined;
  }

  async function copy(firstEvent: EncodedEvent | undefined): Promise<void> {
    let batch: EncodedEvent[] = [];
    for (let event = firstEvent; ; event = await source.next()) {
      if (signal.aborted) return;
      if (event && fits(batch, event)) {
        batch.push(event);
        continue;
      }
      await target.append(batch);
      for (const { encodedBytes } of batch) hashes.source.update(encodedBytes);
      copiedCount += batch.length;
      onProgress("copied", copiedCount, source.share);
      if (!event) return;
      batch = [event];
    }
  }

  async function verify(): Promise<void> {
    for (let count = 1; !signal.aborted; count += 1) {
      const event = await target.next();
      if (!event) return;
      hashes.target.update(event.encodedBytes);
      onProgress("verified", count, Math.min(count / copiedCount, 1));
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
  if (signal.aborted) return { copied: copiedCount, equal: undefined };
  const sha256 = hashes.source.digest("hex");
  if (hashes.target.digest("hex") !== sha256) refuseTarget("run log copy --verify-only to find the first difference");
  return { copied: copiedCount, equal: { events: comparedCount + copiedCount, sha256 } };
}

const MAX_APPEND_EVENTS = 500;

/**
 * Maximum total size of the events in one append, in bytes: half the default limit of EventStoreDB. A larger event is
 * appended in its own request.
 */
const MAX_APPEND_BYTES = 512 * 1024;

/** Returns true if an event can be appended together with a batch. It must be the next event of the same stream. */
function fits(batch: readonly EncodedEvent[], event: EncodedEvent): boolean {
  const lastEvent = batch.at(-1);
  if (!lastEvent) return true;
  // A tombstone has the highest possible revision.
  const isNext = event.stream === lastEvent.stream && event.revision === lastEvent.revision + 1n;
  const byteCount = [...batch, event].reduce((sum, { encodedBytes }) => sum + encodedBytes.length, 0);
  return isNext && batch.length < MAX_APPEND_EVENTS && byteCount <= MAX_APPEND_BYTES;
}

function refuseTarget(problem: string): never {
  throw new DomainError("target_differs", `the target is not a copy: ${problem}`);
}

/**
 * Describes the first difference between two logs.
 *
 * @param count number of equal events before the difference
 */
function describeDifference(source: StoredEvent | undefined, target: StoredEvent | undefined, count: number): string {
  const [sourceEvent, targetEvent] = [source, target].map(
    (event) => event && `revision ${event.revision} of stream ${event.stream}`,
  );
  const events = formatCount(count, "event");
  if (!source || !target)
    return target
      ? `the source ends after ${events}, but the target continues with ${targetEvent}`
      : `the target ends after ${events}, but the source continues with ${sourceEvent}`;
  const fields = (["id", "type", "contentType", "data", "metadata"] as const).filter(
    (name) => Buffer.compare(Buffer.from(source[name]), Buffer.from(target[name])) !== 0,
  );
  const content = sourceEvent === targetEvent ? ` with another ${fields.join(", ")}` : "";
  return `after ${formatCount(count, "equal event")}, the source continues with ${sourceEvent}, but the target with ${targetEvent}${content}`;
}
