import type { Logger } from "../runtime/logger.ts";
import { TimeoutError, withTimeout } from "../runtime/timeout.ts";

/** Interval between two probes during an outage. Milliseconds. */
const PROBE_INTERVAL_MS = 2_000;

/** Minimum interval between two warnings. Milliseconds. */
const WARNING_INTERVAL_MS = 30_000;

/**
 * SQLSTATE codes of a server that is available but was too slow for a statement: canceled by timeout, lock not
 * available, deadlock, serialization failure.
 */
const SLOW_SQLSTATES = new Set(["57014", "55P03", "40P01", "40001"]);

/** Messages of the client library pg for a late response or connection. These errors have no code. */
const TIMEOUT_MESSAGES = /Query read timeout|timeout exceeded when trying to connect/;

export interface OutageOptions {
  /** Runs a short statement on a row that only this process uses. */
  probe(): Promise<unknown>;
  /** Time limit for a probe. Milliseconds. */
  probeTimeoutMs: number;
  /** Called when an outage ends. */
  onEnd(): void;
  logger: Logger;
}

/** Determines whether Postgres is unavailable or only slow. */
export class Outage {
  readonly #options: OutageOptions;
  /** Time of the next probe, as a value of `performance.now()`; undefined while Postgres is available. */
  #nextProbeAt: number | undefined;
  #warnedAt = Number.NEGATIVE_INFINITY;
  #currentProbe: Promise<boolean> | undefined;

  constructor(options: OutageOptions) {
    this.#options = options;
  }

  /** Returns true during an outage. If a probe is due, also starts the probe, to detect the end of the outage. */
  isActive(): boolean {
    if (this.#nextProbeAt !== undefined && performance.now() >= this.#nextProbeAt) {
      this.#nextProbeAt = performance.now() + PROBE_INTERVAL_MS;
      void this.#isAvailable();
    }
    return this.#nextProbeAt !== undefined;
  }

  /**
   * Determines whether an outage caused a statement's failure. If Postgres may only be slow, a probe decides. Other
   * requests cannot delay a probe, because they never lock its row.
   *
   * @returns true if Postgres is unavailable
   */
  async isCauseOf(error: unknown): Promise<boolean> {
    if (this.#nextProbeAt !== undefined) return true;
    if (!isSlow(error)) this.#begin(error);
    else if (await this.#isAvailable()) {
      this.#warn(error, "Postgres counts requests slowly: some requests fail with 503");
    }
    return this.#nextProbeAt !== undefined;
  }

  #begin(error: unknown): void {
    this.#nextProbeAt = performance.now() + PROBE_INTERVAL_MS;
    this.#warn(error, "Postgres cannot count requests: each process enforces its share of the rate limits");
  }

  #isAvailable(): Promise<boolean> {
    this.#currentProbe ??= this.#probe().finally(() => {
      this.#currentProbe = undefined;
    });
    return this.#currentProbe;
  }

  async #probe(): Promise<boolean> {
    const { probe, probeTimeoutMs, onEnd } = this.#options;
    try {
      await withTimeout(probeTimeoutMs, probe());
    } catch (error) {
      this.#begin(error);
      return false;
    }
    const wasActive = this.#nextProbeAt !== undefined;
    this.#nextProbeAt = undefined;
    if (wasActive) onEnd();
    return true;
  }

  #warn(error: unknown, message: string): void {
    if (performance.now() - this.#warnedAt < WARNING_INTERVAL_MS) return;
    this.#warnedAt = performance.now();
    this.#options.logger.warn({ error }, message);
  }
}

function isSlow(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof TimeoutError) return error instanceof TimeoutError;
  const { code, message } = error as Error & { code?: unknown };
  return SLOW_SQLSTATES.has(String(code)) || (code === undefined && TIMEOUT_MESSAGES.test(message));
}
