/** Current window of a key, as this process knows it. */
export interface Window {
  /** Requests counted by all processes, as of the last answer from Postgres. */
  used: number;
  /** Requests that this process has let pass since then and that Postgres has not counted. */
  uncounted: number;
  /** Length. Milliseconds. */
  length: number;
  /** End. Milliseconds since 1970. */
  endsAt: number;
  /** End, as a value of `performance.now()`. */
  until: number;
}

/** Most remembered keys, about 5 MB. The key that was not used for longest is removed first. */
const MAX_KEYS = 20_000;

/** Remembers the current windows of a limited number of keys. */
export class Windows {
  readonly #windows = new Map<string, Window>();

  /** @returns undefined if the window has ended */
  find(key: string): Window | undefined {
    const window = this.#windows.get(key);
    return window && window.until > performance.now() ? window : undefined;
  }

  /** Takes the uncounted requests of a key, to add them in Postgres. */
  takeUncounted(key: string): number {
    const window = this.find(key);
    const uncounted = window?.uncounted ?? 0;
    if (window) window.uncounted = 0;
    return uncounted;
  }

  /** Puts uncounted requests back if they could not be added. */
  giveBack(key: string, uncounted: number): void {
    const window = this.find(key);
    if (window) window.uncounted += uncounted;
  }

  /** Lists keys and windows with uncounted requests. */
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
