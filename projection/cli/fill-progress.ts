import type { ProjectionProgress } from "../engine/projection-options.ts";

const PROGRESS_INTERVAL_MS = 1_000;

/**
 * Minimum progress for an estimate of the remaining time. With less progress, one slow moment would dominate the
 * estimate.
 */
const MIN_ESTIMATE_BASIS = { seconds: 3, share: 0.01 };

/**
 * Creates a progress reporter for a projection run. Once a second, it shows the processed share of the log, the events
 * per second and the estimated remaining time.
 *
 * @param logEnd position of the last event in the log
 * @param clock milliseconds; only differences matter
 */
export function createProgressReporter(
  showText: (text: string) => void,
  logEnd: bigint,
  clock = () => performance.now(),
): (progress: Pick<ProjectionProgress, "lastReadPosition" | "eventCount" | "waitsFor">) => void {
  const startedAt = clock();
  let firstProgress: { share: number; eventCount: number } | undefined;
  let reportedAt = startedAt;
  return ({ lastReadPosition, eventCount, waitsFor }) => {
    const share = computeShare(lastReadPosition, logEnd);
    firstProgress ??= { share, eventCount };
    const now = clock();
    if (now - reportedAt < PROGRESS_INTERVAL_MS) return;
    reportedAt = now;
    const elapsedSeconds = (now - startedAt) / 1000;
    const eventsPerSecond = Math.round((eventCount - firstProgress.eventCount) / elapsedSeconds);
    const timeLeftText = formatTimeLeft(share - firstProgress.share, 1 - share, elapsedSeconds);
    const waitText = waitsFor === null ? "" : `, waiting for ${waitsFor}`;
    showText(`${(share * 100).toFixed(1)} % of the log, ${eventsPerSecond} events/s${timeLeftText}${waitText}`);
  };
}

/**
 * Returns the processed share of the log, limited to the range from 0 to 1. A run starts at log position -1, and live
 * events can move the position beyond `logEnd`.
 */
function computeShare(lastReadPosition: bigint, logEnd: bigint): number {
  if (logEnd <= 0n) return 1;
  return Math.min(1, Math.max(0, Number(lastReadPosition) / Number(logEnd)));
}

/** @returns an empty string if there is too little progress for an estimate */
function formatTimeLeft(doneShare: number, remainingShare: number, elapsedSeconds: number): string {
  if (elapsedSeconds < MIN_ESTIMATE_BASIS.seconds || doneShare < MIN_ESTIMATE_BASIS.share) return "";
  const secondsLeft = Math.round((remainingShare / doneShare) * elapsedSeconds);
  return secondsLeft < 120 ? `, ${secondsLeft} s left` : `, ${Math.round(secondsLeft / 60)} min left`;
}
