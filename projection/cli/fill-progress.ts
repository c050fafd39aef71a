import type { ProjectionProgress } from "../engine/projection-options.ts";
import type { Terminal } from "./command.ts";

/** Milliseconds. */
const REPORT_INTERVAL_MS = 1_000;

/**
 * Minimum progress for an estimate of the remaining time. With less progress, one slow moment would dominate the
 * estimate.
 */
const MIN_ESTIMATE_BASIS = { seconds: 3, share: 0.01 };

/**
 * Creates a progress reporter for a projection run. Once a second, it prints the processed share of the log, the events
 * per second and the estimated remaining time.
 *
 * @param end position of the last event in the log
 * @param clock milliseconds; only differences matter
 */
export function createProgressReporter(
  terminal: Pick<Terminal, "progress">,
  end: bigint,
  clock = () => performance.now(),
): (progress: Pick<ProjectionProgress, "readUpTo" | "events" | "waitsFor">) => void {
  const startedAt = clock();
  let first: { share: number; events: number } | undefined;
  let reportedAt = startedAt;
  return ({ readUpTo, events, waitsFor }) => {
    const share = computeShare(readUpTo, end);
    first ??= { share, events };
    const now = clock();
    if (now - reportedAt < REPORT_INTERVAL_MS) return;
    reportedAt = now;
    const seconds = (now - startedAt) / 1000;
    const rate = Math.round((events - first.events) / seconds);
    const timeLeft = formatTimeLeft(share - first.share, 1 - share, seconds);
    const waitText = waitsFor === null ? "" : `, waiting for ${waitsFor}`;
    terminal.progress(`${(share * 100).toFixed(1)} % of the log, ${rate} events/s${timeLeft}${waitText}`);
  };
}

/**
 * Returns the processed share of the log, limited to the range from 0 to 1. A run starts at log position -1, and live
 * events can move the position beyond `end`.
 */
function computeShare(readUpTo: bigint, end: bigint): number {
  if (end <= 0n) return 1;
  return Math.min(1, Math.max(0, Number(readUpTo) / Number(end)));
}

/** @returns an empty string if there is too little progress for an estimate */
function formatTimeLeft(done: number, left: number, seconds: number): string {
  if (seconds < MIN_ESTIMATE_BASIS.seconds || done < MIN_ESTIMATE_BASIS.share) return "";
  const estimate = Math.round((left / done) * seconds);
  return estimate < 120 ? `, ${estimate} s left` : `, ${Math.round(estimate / 60)} min left`;
}
