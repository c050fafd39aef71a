/** The current window of a key, as this process knows it. */
export interface Window {
  /** Requests of all processes when Postgres was last asked. */
  used: number;
  /** Requests that this process has let through since then and that Postgres has not counted. */
  uncounted: number;
  /** Its length. Milliseconds. */
  length: number;
  /** Its end. Milliseconds since 1970. */
  endsAt: number;
  /** Its end by `performance.now()`. */
  until: number;
}

/** Keys that are remembered, about 5 MB. Those not seen for longest leave first. */
const MAX_KEYS = 20_000;

/** Remembers the current windows of keys, a bounded number of them. */
export class Windows {
  readonly #windows = new Map<string, Window>();

  /** @returns undefined if the window has ended */
  find(key: string): Window | undefined {
    const window = this.#windows.get(key);
    return window && window.until > performance.now() ? window : undefined;
  }

  /** Takes the requests that a key's window has let through without Postgres, to add them there. */
  takeUncounted(key: string): number {
    const window = this.find(key);
    const uncounted = window?.uncounted ?? 0;
    if (window) window.uncounted = 0;
    return uncounted;
  }

  /** Gives them back if they could not be added. */
  giveBack(key: string, uncounted: number): void {
    const window = this.find(key);
    if (window) window.uncounted += uncounted;
  }

  /** Keys and windows that have let requests through without Postgres. */
  withUncounted(): [string, Window][] {
    return [...this.#windows].filter(([key]) => (this.find(key)?.uncounted ?? 0) > 0);
  }

  set(key: string, window: Window): void {
    this.#windows.delete(key);
    this.#windows.set(key, window);
    for (const oldest of this.#windows.keys()) {
      if (this.#windows.size <= MAX_KEYS) break;
      this.#windows.delete(oldest);
    }
  }
}
