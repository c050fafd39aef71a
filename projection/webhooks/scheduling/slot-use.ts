/** Time after which used slot time counts half. Milliseconds. */
const HALF_LIFE_MS = 30_000;

/** Lower slot time counts as none. Milliseconds. */
const MIN_USED_MS = 1;

/**
 * Slots that an application or endpoint holds, and its recent slot time: the time of attempts under way, and of finished
 * attempts with a half-life of 30 seconds. Times are in milliseconds of one clock.
 */
export class SlotUse {
  #busy = 0;
  /** Sum of the start times of attempts under way, so that their age costs one subtraction. */
  #started = 0;
  /** Slot time of attempts that ended, and their number, as of the end of the last one. */
  #ended = 0;
  #attempts = 0;
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
   * Slot time that an attempt is expected to take: that of recent attempts on average, or the average age of those under
   * way if they have taken longer already.
   *
   * @param unknown expected time if no attempt ended recently
   */
  expectedMs(now: number, unknown: number): number {
    const ended = this.#attempts === 0 ? unknown : this.#ended / this.#attempts;
    return this.#busy === 0 ? ended : Math.max(ended, this.#age(now) / this.#busy);
  }

  /** Returns true if it holds no slot and its recent slot time is negligible. */
  isForgotten(now: number): boolean {
    return this.#busy === 0 && this.#decayed(this.#ended, now) < MIN_USED_MS;
  }

  /** Sum of the ages of the attempts under way. */
  #age(now: number): number {
    return this.#busy * now - this.#started;
  }

  #decayed(value: number, now: number): number {
    return value * 0.5 ** ((now - this.#endedAt) / HALF_LIFE_MS);
  }
}
