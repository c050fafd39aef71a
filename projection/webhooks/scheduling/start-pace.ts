/** Number of attempts that may start together after a pause, even if the spacing is long. */
const MAX_BURST_STARTS = 4;

/** Time for which missed starts can be made up at once. Longer than the time between two decisions. Milliseconds. */
const MAX_CATCH_UP_MS = 50;

/**
 * Spreads the starts of attempts evenly over time, using the generic cell rate algorithm. All times are in milliseconds
 * of the same clock.
 */
export class StartPace {
  /** Time at which the next attempt would start if all starts were evenly spaced. */
  #theoreticalStartAt = Number.NEGATIVE_INFINITY;

  /**
   * Returns the number of attempts that may start now.
   *
   * @param spacingMs required average time between two starts, in milliseconds
   */
  countPossibleStarts(now: number, spacingMs: number): number {
    const aheadMs = Math.max(0, this.#theoreticalStartAt - now);
    const toleratedStarts = Math.max(MAX_CATCH_UP_MS / spacingMs, MAX_BURST_STARTS - 1);
    return Math.max(0, Math.floor(toleratedStarts - aheadMs / spacingMs) + 1);
  }

  start(now: number, spacingMs: number): void {
    this.#theoreticalStartAt = Math.max(this.#theoreticalStartAt, now) + spacingMs;
  }
}
