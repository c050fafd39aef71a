import type { ProjectionProgress } from "../engine/projection-options.ts";
import type { Terminal } from "./command.ts";

/** Milliseconds. */
const REPORT_INTERVAL_MS = 1_000;

/** Minimum progress for an estimate of the time left. Before that, one slow moment would dominate the estimate. */
const MIN_FOR_ESTIMATE = { seconds: 3, share: 0.01 };

/**
 * Creates a reporter for a run through the log. It prints the processed share of the log, events per second and the time
 * left.
 *
 * @param end position of the last event in the log
 * @param clock milliseconds; only differences matter
 */
export function fillProgress(
  terminal: Pick<Terminal, "progress">,
  end: bigint,
  clock = () => performance.now(),
): (progress: Pick<ProjectionProgress, "seen" | "events" | "waitsFor">) => void {
  const started = clock();
  let from: { share: number; events: number } | undefined;
  let reportedAt = started;
  return ({ seen, events, waitsFor }) => {
    const share = shareOf(seen, end);
    from ??= { share, events };
    const now = clock();
    if (now - reportedAt < REPORT_INTERVAL_MS) return;
    reportedAt = now;
    const seconds = (now - started) / 1000;
    const rate = Math.round((events - from.events) / seconds);
    const left = timeLeft(share - from.share, 1 - share, seconds);
    const wait = waitsFor === null ? "" : `, waiting for ${waitsFor}`;
    terminal.progress(`${(share * 100).toFixed(1)} % of the log, ${rate} events/s${left}${wait}`);
  };
}

/** Returns 0 to 1. A run starts before the first position, and live events can take it past the end. */
function shareOf(seen: bigint, end: bigint): number {
  if (end <= 0n) return 1;
  return Math.min(1, Math.max(0, Number(seen) / Number(end)));
}

/** @returns an empty text while the time cannot be estimated */
function timeLeft(done: number, left: number, seconds: number): string {
  if (seconds < MIN_FOR_ESTIMATE.seconds || done < MIN_FOR_ESTIMATE.share) return "";
  const estimate = Math.round((left / done) * seconds);
  return estimate < 120 ? `, ${estimate} s left` : `, ${Math.round(estimate / 60)} min left`;
}
