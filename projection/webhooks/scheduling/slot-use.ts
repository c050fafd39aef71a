/** Time after which the slot time of a finished attempt counts half. Milliseconds. */
const HALF_LIFE_MS = 30_000;

/** Slot time below which an application or endpoint counts as unused. Milliseconds. */
const MIN_USED_MS = 1;

/**
 * Slots that an application or endpoint occupies, and its recent slot time. Recent slot time is the age of attempts in
 * progress plus the duration of finished attempts, which decays with a half-life of 30 seconds. All times are in
 * milliseconds of the same clock.
 */
export class SlotUse {
  #busy = 0;
  /** Sum of the start times of attempts in progress, from which one subtraction gives the sum of their ages. */
  #started = 0;
  /** Decayed slot time of finished attempts, as of `#endedAt`. */
  #ended = 0;
  /** Decayed number of finished attempts, as of `#endedAt`. */
  #attempts = 0;
  /** Time at which the last attempt finished. */
  #endedAt = 0;

  get busy(): number {
    return this.#busy;
  }

  start(now: number): void {
    this.#busy += 1;
    this.#started += now;
  }

  end(startedAt: number, now: number): void {
    this.#busy -= 1;
    this.#started -= startedAt;
    this.#ended = this.#decayed(this.#ended, now) + now - startedAt;
    this.#attempts = this.#decayed(this.#attempts, now) + 1;
    this.#endedAt = now;
  }

  usedMs(now: number): number {
    return this.#decayed(this.#ended, now) + this.#age(now);
  }

  /**
   * Estimates the slot time of the next attempt. The estimate is the average slot time of recent attempts, or the average
   * age of attempts in progress if that is longer.
   *
   * @param unknown estimate if no attempt has finished recently
   */
  expectedMs(now: number, unknown: number): number {
    const ended = this.#attempts === 0 ? unknown : this.#ended / this.#attempts;
    return this.#busy === 0 ? ended : Math.max(ended, this.#age(now) / this.#busy);
  }

  /** Returns true if no slot is occupied and the recent slot time is negligible. */
  isForgotten(now: number): boolean {
    return this.#busy === 0 && this.#decayed(this.#ended, now) < MIN_USED_MS;
  }

  /** Returns the sum of the ages of the attempts in progress. */
  #age(now: number): number {
    return this.#busy * now - this.#started;
  }

  #decayed(value: number, now: number): number {
    return value * 0.5 ** ((now - this.#endedAt) / HALF_LIFE_MS);
  }
}
