/** Half-life of the slot time of finished attempts. Milliseconds. */
const HALF_LIFE_MS = 30_000;

/** Slot time below which an application or endpoint without current attempts is no longer tracked. Milliseconds. */
const MIN_TRACKED_MS = 1;

/**
 * Occupied slots and recent slot time of an application or endpoint. The recent slot time is the total age of attempts
 * in progress plus the total duration of finished attempts. The duration of finished attempts decays with a half-life
 * of 30 seconds. All times are in milliseconds of the same clock.
 */
export class SlotUse {
  #occupiedSlots = 0;
  /** Sum of the start times of all attempts in progress, from which `#sumAges` calculates the sum of their ages. */
  #startTimeSum = 0;
  /** Total duration of finished attempts, decayed as of `#lastFinishedAt`. */
  #finishedMs = 0;
  /** Number of finished attempts, decayed as of `#lastFinishedAt`. */
  #finishedCount = 0;
  /** Time at which the last attempt finished. */
  #lastFinishedAt = 0;

  get occupiedSlots(): number {
    return this.#occupiedSlots;
  }

  start(now: number): void {
    this.#occupiedSlots += 1;
    this.#startTimeSum += now;
  }

  end(startedAt: number, now: number): void {
    this.#occupiedSlots -= 1;
    this.#startTimeSum -= startedAt;
    this.#finishedMs = this.#decay(this.#finishedMs, now) + now - startedAt;
    this.#finishedCount = this.#decay(this.#finishedCount, now) + 1;
    this.#lastFinishedAt = now;
  }

  calculateUsedMs(now: number): number {
    return this.#decay(this.#finishedMs, now) + this.#sumAges(now);
  }

  /**
   * Estimates the duration of the next attempt. The estimate is the average duration of recent attempts, or the average
   * age of attempts in progress if that age is longer.
   *
   * @param defaultMs estimate if no attempt has finished yet
   */
  estimateAttemptMs(now: number, defaultMs: number): number {
    const meanMs = this.#finishedCount === 0 ? defaultMs : this.#finishedMs / this.#finishedCount;
    return this.#occupiedSlots === 0 ? meanMs : Math.max(meanMs, this.#sumAges(now) / this.#occupiedSlots);
  }

  /** Returns true if no slot is occupied and the recent slot time is negligible. */
  isNegligible(now: number): boolean {
    return this.#occupiedSlots === 0 && this.#decay(this.#finishedMs, now) < MIN_TRACKED_MS;
  }

  /** Returns the sum of the ages of the attempts in progress. */
  #sumAges(now: number): number {
    return this.#occupiedSlots * now - this.#startTimeSum;
  }

  #decay(sum: number, now: number): number {
    return sum * 0.5 ** ((now - this.#lastFinishedAt) / HALF_LIFE_MS);
  }
}
