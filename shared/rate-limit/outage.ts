import { Circuit } from "../runtime/circuit.ts";
import type { Logger } from "../runtime/logger.ts";
import { TimeoutError } from "../runtime/timeout.ts";

/** Minimum interval between two warnings that Postgres is slow. */
const SLOWNESS_LOG_INTERVAL_MS = 30_000;

/**
 * SQLSTATE codes of a server that is available but was too slow for a statement: canceled by timeout, lock not
 * available, deadlock, serialization failure.
 */
const SLOW_SQLSTATES = new Set(["57014", "55P03", "40P01", "40001"]);

/** pg's messages for a late response or connection. These errors have no code. */
const TIMEOUT_MESSAGES = /Query read timeout|timeout exceeded when trying to connect/;

interface OutageOptions {
  /** Runs a short statement on a row that only this process uses. */
  probe(): Promise<unknown>;
  probeTimeoutMs: number;
  onEnd(): void;
  logger: Logger;
}

export class Outage {
  readonly #options: OutageOptions;
  readonly #circuit: Circuit;
  #currentProbe: Promise<boolean> | undefined;
  #slownessLoggedAt = Number.NEGATIVE_INFINITY;

  constructor(options: OutageOptions) {
    this.#options = options;
    this.#circuit = new Circuit({
      callTimeoutMs: options.probeTimeoutMs,
      onFailure: (error) =>
        options.logger.warn(
          { error },
          "Postgres cannot count requests: each process enforces its share of the rate limits",
        ),
      onClose: options.onEnd,
    });
  }

  /** Returns true during an outage. If a probe is due, also starts the probe, to detect the end of the outage. */
  isActive(): boolean {
    if (this.#circuit.isTestDue()) void this.#isAvailable();
    return this.#circuit.isOpen();
  }

  /**
   * Determines whether an outage caused a statement's failure. If Postgres may only be slow, a probe decides. Other
   * requests cannot delay a probe, because they never lock its row.
   */
  async isCauseOf(error: unknown): Promise<boolean> {
    if (this.#circuit.isOpen()) return true;
    if (!isSlow(error)) this.#circuit.open(error);
    else if (await this.#isAvailable()) this.#logSlowness(error);
    return this.#circuit.isOpen();
  }

  #isAvailable(): Promise<boolean> {
    this.#currentProbe ??= this.#circuit
      .call(this.#options.probe)
      .then(
        () => true,
        () => false,
      )
      .finally(() => {
        this.#currentProbe = undefined;
      });
    return this.#currentProbe;
  }

  #logSlowness(error: unknown): void {
    if (performance.now() - this.#slownessLoggedAt < SLOWNESS_LOG_INTERVAL_MS) return;
    this.#slownessLoggedAt = performance.now();
    this.#options.logger.warn({ error }, "Postgres counts requests slowly: some requests fail with 503");
  }
}

function isSlow(error: unknown): boolean {
  if (!(error instanceof Error) || error instanceof TimeoutError) return error instanceof TimeoutError;
  const { code, message } = error as Error & { code?: unknown };
  return SLOW_SQLSTATES.has(String(code)) || (code === undefined && TIMEOUT_MESSAGES.test(message));
}
