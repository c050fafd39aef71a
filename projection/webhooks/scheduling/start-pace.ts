/** Starts that are possible at once after a pause. */
const BURST = 4;

/** Missed starts of this time can be made up. It covers the time between two decisions. Milliseconds. */
const CATCH_UP_MS = 50;

/** Spreads starts evenly over time (generic cell rate algorithm). Times are in milliseconds of one clock. */
export class StartPace {
  /** Time by which the starts so far are used up at the given spacing. */
  #usedUpAt = Number.NEGATIVE_INFINITY;

  /**
   * Counts the starts that are possible now.
   *
   * @param spacing time between two starts
   */
  possible(now: number, spacing: number): number {
    const ahead = Math.max(0, this.#usedUpAt - now);
    const tolerated = Math.max(CATCH_UP_MS / spacing, BURST - 1);
    return Math.max(0, Math.floor(tolerated - ahead / spacing) + 1);
  }

  start(now: number, spacing: number): void {
    this.#usedUpAt = Math.max(this.#usedUpAt, now) + spacing;
  }
}
