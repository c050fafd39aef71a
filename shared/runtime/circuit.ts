import { withTimeout } from "./timeout.ts";

interface CircuitOptions {
  callTimeoutMs: number;
  /** Receives the error that opened the circuit or kept it open, at most once every 30 s. */
  onFailure(error: unknown): void;
  onClose?(): void;
  clock?: () => number;
}

const TEST_INTERVAL_MS = 2_000;

const REPORT_INTERVAL_MS = 30_000;

/**
 * Circuit breaker for a dependency. A failed call opens the circuit, and further calls then fail immediately. At
 * intervals, one call is permitted as a test. If it succeeds, the circuit closes.
 */
export class Circuit {
  readonly #options: CircuitOptions;
  readonly #clock: () => number;
  /** Time of the next test call; undefined while the circuit is closed. */
  #nextTestAt: number | undefined;
  #reportedAt = Number.NEGATIVE_INFINITY;

  constructor(options: CircuitOptions) {
    this.#options = options;
    this.#clock = options.clock ?? performance.now.bind(performance);
  }

  isOpen(): boolean {
    return this.#nextTestAt !== undefined;
  }

  isTestDue(): boolean {
    return this.#nextTestAt !== undefined && this.#clock() >= this.#nextTestAt;
  }

  /** Opens the circuit, or keeps it open, because of a failure outside of {@link call}. */
  open(error: unknown): void {
    this.#nextTestAt = this.#clock() + TEST_INTERVAL_MS;
    if (this.#clock() - this.#reportedAt < REPORT_INTERVAL_MS) return;
    this.#reportedAt = this.#clock();
    this.#options.onFailure(error);
  }

  /** @throws an error without calling, if the circuit is open and no test is due */
  async call<T>(callDependency: () => Promise<T>): Promise<T> {
    if (this.isOpen()) {
      if (!this.isTestDue()) throw new Error("not called: the previous call failed");
      this.#nextTestAt = this.#clock() + TEST_INTERVAL_MS;
    }
    let result: T;
    try {
      result = await withTimeout(this.#options.callTimeoutMs, callDependency());
    } catch (error) {
      this.open(error);
      throw error;
    }
    const wasOpen = this.isOpen();
    this.#nextTestAt = undefined;
    if (wasOpen) this.#options.onClose?.();
    return result;
  }
}
