/** Maximum number of attempts that may start together after a pause. */
const MAX_BURST_STARTS = 4;

/**
 * Time within which missed starts can be made up for. This time is longer than the time between two decisions.
 * Milliseconds.
 */
const MAX_CATCH_UP_MS = 50;

/**
 * Spreads the starts of attempts evenly over time, by the generic cell rate algorithm. All times are in milliseconds of the
 * same clock.
 */
export class StartPace {
  /** Theoretical time of the next start if all starts were evenly spaced. */
  #theoreticalStartAt = Number.NEGATIVE_INFINITY;

  /**
   * Returns the number of attempts that may start now.
   *
   * @param spacing required average time between two starts, in milliseconds
   */
  countPossibleStarts(now: number, spacing: number): number {
    const ahead = Math.max(0, this.#theoreticalStartAt - now);
    const tolerated = Math.max(MAX_CATCH_UP_MS / spacing, MAX_BURST_STARTS - 1);
    return Math.max(0, Math.floor(tolerated - ahead / spacing) + 1);
  }

  start(now: number, spacing: number): void {
    this.#theoreticalStartAt = Math.max(this.#theoreticalStartAt, now) + spacing;
  }
}
