/** Slot time counts half after this long. Milliseconds. */
const HALF_LIFE = 30_000;

/** Slot time below this is forgotten. Milliseconds. */
const FORGOTTEN = 1;

/**
 * Slots that an application or endpoint holds, and the slot time that it used recently: the time of its attempts under
 * way and, halved every 30 seconds, of those that ended. Times are in milliseconds of one clock.
 */
export class SlotUse {
  #busy = 0;
  /** Sum of the start times of attempts under way, so that their age costs one subtraction. */
  #started = 0;
  #ended = 0;
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
    this.#ended = this.#decayed(now) + now - startedAt;
    this.#endedAt = now;
  }

  usedMs(now: number): number {
    return this.#decayed(now) + this.#busy * now - this.#started;
  }

  /** Reports whether it holds no slot and what it used no longer matters. */
  isForgotten(now: number): boolean {
    return this.#busy === 0 && this.#decayed(now) < FORGOTTEN;
  }

  #decayed(now: number): number {
    return this.#ended * 0.5 ** ((now - this.#endedAt) / HALF_LIFE);
  }
}
