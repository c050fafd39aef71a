import { LRUCache } from "lru-cache";

export interface Window {
  /** Number of requests that all processes had counted, as last reported by Postgres. */
  used: number;
  /** Number of requests that this process has permitted since that report, without Postgres. */
  uncountedRequests: number;
  lengthMs: number;
  endsAt: number;
  expiresAt: number;
}

/** Maximum memory for windows, in bytes: about 20,000 windows. */
const MAX_BYTES = 16 * 1024 * 1024;

const WINDOW_BYTES = 700;

export class Windows {
  readonly #windows = new LRUCache<string, Window>({
    maxSize: MAX_BYTES,
    sizeCalculation: (_, key) => WINDOW_BYTES + 2 * key.length,
  });

  /** Returns the current window of a key, or undefined if no window is known or the window has ended. */
  find(key: string): Window | undefined {
    const window = this.#windows.get(key);
    return window && window.expiresAt > performance.now() ? window : undefined;
  }

  /**
   * Returns the current window of a key, or starts a window. A new window ends at a multiple of its length, so that all
   * processes use the same window without Postgres.
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

  /** Restores a key's uncounted requests after Postgres failed to count them. */
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
