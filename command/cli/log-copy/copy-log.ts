import { DomainError } from "../../../shared/domain/domain-error.ts";
import { ServerUnavailableError } from "../../../shared/runtime/run-service.ts";
import { describeDifference, LogDigest, type LogSummary, readPairs } from "./compare-logs.ts";
import { AppendBatch, appendBatch, SoftDeletions } from "./copy-events.ts";
import type { CopyOptions } from "./copy-server.ts";
import type { EncodedEvent } from "./stored-event.ts";

interface CopyResult {
  copied: number;
  /** The events of both logs; undefined if the copy was interrupted. */
  summaries: { source: LogSummary; target: LogSummary } | undefined;
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
  const run = new CopyRun(options);
  try {
    await run.compare();
    await run.copy();
    await run.verify();
  } catch (error) {
    if (!(options.signal.aborted && error instanceof ServerUnavailableError)) throw error;
  }
  return run.finish();
}

class CopyRun {
  readonly #options: CopyOptions;
  readonly #digests = { source: new LogDigest(), target: new LogDigest() };
  readonly #softDeletions = new SoftDeletions();
  #nextEvent: EncodedEvent | undefined;
  #copiedCount = 0;
  #isFinished = false;

  constructor(options: CopyOptions) {
    this.#options = options;
  }

  async compare(): Promise<void> {
    const { source, target, signal } = this.#options;
    for await (const pair of readPairs(source, target)) {
      this.#nextEvent = pair.source;
      if (!pair.target || signal.aborted) return;
      const { count } = this.#digests.target;
      if (!pair.source?.encodedBytes.equals(pair.target.encodedBytes))
        throw new DomainError("target_differs", `the target is not a copy: ${describeDifference(pair, count)}`);
      this.#nextEvent = undefined;
      this.#softDeletions.apply(pair.source);
      this.#digests.source.add(pair.source.encodedBytes);
      this.#digests.target.add(pair.target.encodedBytes);
      this.#report("compared", count + 1);
    }
  }

  async copy(): Promise<void> {
    const { source, signal } = this.#options;
    let batch = new AppendBatch();
    for (let event = this.#nextEvent; event && !signal.aborted; event = await source.reader.next()) {
      this.#softDeletions.requireCopyable(event);
      this.#softDeletions.apply(event);
      if (batch.add(event)) continue;
      await this.#append(batch);
      batch = new AppendBatch();
      batch.add(event);
    }
    if (!signal.aborted) await this.#append(batch);
  }

  async #append(batch: AppendBatch): Promise<void> {
    await appendBatch(this.#options.target, batch);
    for (const { encodedBytes } of batch.events) this.#digests.source.add(encodedBytes);
    this.#copiedCount += batch.events.length;
    this.#report("copied", this.#copiedCount);
  }

  async verify(): Promise<void> {
    const { target, signal } = this.#options;
    const comparedCount = this.#digests.target.count;
    for (;;) {
      if (signal.aborted) return;
      const event = await target.reader.next();
      if (!event) break;
      this.#digests.target.add(event.encodedBytes);
      const eventCount = this.#digests.target.count - comparedCount;
      this.#options.onProgress({ phase: "verified", eventCount, share: eventCount / this.#copiedCount });
    }
    this.#isFinished = true;
  }

  finish(): CopyResult {
    const { source, target } = this.#digests;
    const summaries = this.#isFinished ? { source: source.finish(), target: target.finish() } : undefined;
    return { copied: this.#copiedCount, summaries };
  }

  #report(phase: "compared" | "copied", eventCount: number): void {
    const { reader, endPosition } = this.#options.source;
    this.#options.onProgress({ phase, eventCount, share: Number(reader.position) / Number(endPosition) });
  }
}
