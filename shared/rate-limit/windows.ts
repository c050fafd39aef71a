import { LRUCache } from "lru-cache";

/** Last known window of a key in this process. */
export interface Window {
  /** Number of requests that all processes had counted, according to the last response of Postgres. */
  used: number;
  /** Number of requests that this process has permitted since that response without counting them in Postgres. */
  uncountedRequests: number;
  lengthMs: number;
  endsAt: number;
  /** End of the window, as a value of `performance.now()`. */
  expiresAt: number;
}

const MAX_KEYS = 20_000;

/** Remembers the current windows of the most recently used keys. */
export class Windows {
  readonly #windows = new LRUCache<string, Window>({ max: MAX_KEYS });

  /** Returns the current window of a key, or undefined if no window is known or the window has ended. */
  find(key: string): Window | undefined {
    const window = this.#windows.get(key);
    return window && window.expiresAt > performance.now() ? window : undefined;
  }

  /**
   * Returns the current window of a key, or starts a window. The window ends at a multiple of its length, so that
   * processes use the same window even if Postgres is unavailable.
   */
  findOrStart(key: string, lengthMs: number): Window {
    const knownWindow = this.find(key);
    if (knownWindow) return knownWindow;
    const now = Date.now();
    const endsAt = (Math.floor(now / lengthMs) + 1) * lengthMs;
    const window = { used: 0, uncountedRequests: 0, lengthMs, endsAt, expiresAt: performance.now() + endsAt - now };
    this.#windows.set(key, window);
    return window;
  }

  /**
   * Resets the number of uncounted requests of a key, and returns the former number. The caller adds these requests to
   * the count in Postgres.
   */
  takeUncountedRequests(key: string): number {
    const window = this.find(key);
    const uncountedRequests = window?.uncountedRequests ?? 0;
    if (window) window.uncountedRequests = 0;
    return uncountedRequests;
  }

  /** Restores the number of uncounted requests of a key after Postgres could not add these requests to the count. */
  restoreUncountedRequests(key: string, requestCount: number): void {
    const window = this.find(key);
    if (window) window.uncountedRequests += requestCount;
  }

  listUncountedWindows(): [string, Window][] {
    return [...this.#windows.entries()].filter(([key]) => (this.find(key)?.uncountedRequests ?? 0) > 0);
  }

  set(key: string, window: Window): void {
    this.#windows.set(key, window);
  }
}
