import type pg from "pg";
import { pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import type { Notifier } from "../../shared/runtime/notifier.ts";
import { type HealthTracker, retryForever } from "./outbox/retry-forever.ts";
import type { FinishedAttempt } from "./outcomes/finished-attempt.ts";
import { type OutcomeWriterOptions, writeOutcomesWhenEnded } from "./outcomes/outcome-writer.ts";
import { releaseLeases } from "./outcomes/outcomes.ts";
import { findDueEndpoints } from "./scheduling/due.ts";
import type { DueEndpoints } from "./scheduling/due-endpoints.ts";
import { type Allotment, createSlots, MAX_HELD_DELIVERIES, type Slot } from "./scheduling/slots.ts";
import { type ClaimedDelivery, claimDue } from "./sending/claim.ts";
import { type DeliverOptions, deliver } from "./sending/deliver.ts";
import { judge } from "./sending/retry-policy.ts";
import type { AttemptLimits } from "./sending/send.ts";

export interface SenderOptions extends DeliverOptions, OutcomeWriterOptions {
  pool: pg.Pool;
  /** Seconds before each retry. */
  schedule: readonly number[];
  health: HealthTracker;
  /** Known endpoints with due deliveries. */
  due: DueEndpoints;
  /** Wakes the search for endpoints with due deliveries. */
  search: Notifier;
  /** From 0 up to, not including, 1. */
  random(): number;
}

/** Pause between two searches for due deliveries. A retry can be late by about twice this time. Milliseconds. */
const SEARCH_INTERVAL_MS = 200;

/** Minimum pause after a search, as a multiple of its duration, so that searches do not overload the database. */
const SEARCH_REST_FACTOR = 9;

/** Pause between two claims, so that each claim finds several due deliveries. Milliseconds. */
const CLAIM_INTERVAL_MS = 5;

/**
 * Maximum pause between two decisions about slots. New deliveries and recorded outcomes wake the sender earlier. A start that
 * the pace of an application allows again does not. Milliseconds.
 */
const MAX_CLAIM_INTERVAL_MS = 25;

/** Returns the length of a lease: the longest attempt, as much time to record its outcome, and one second. Milliseconds. */
const leaseFor = (limits: AttemptLimits) => 2 * (limits.connectTimeoutMs + limits.timeoutMs) + 1_000;

/** Time for current attempts to finish when the role stops. Longer attempts are interrupted. Milliseconds. */
const FINISH_TIMEOUT_MS = 1_500;

/** A claimed delivery whose outcome is not yet recorded. */
interface UnderWay {
  claimed: ClaimedDelivery;
  slot: Slot;
  cut: AbortController;
  /** Milliseconds since 1970. */
  leaseEndsAt: number;
}

/**
 * Sends due deliveries until the signal aborts. Any number of processes can run a sender at the same time. The sender
 * records an attempt before it sends the request. A process records the outcome before it claims the delivery again. Each
 * process has its own slots, and so its own limits for endpoints, applications and environments.
 */
export async function runSender(options: SenderOptions, signal: AbortSignal): Promise<void> {
  await new Sender(options).run(signal);
}

class Sender {
  readonly #options: SenderOptions;
  readonly #slots = createSlots(() => performance.now());
  readonly #underWay = new Map<string, UnderWay>();
  /** Large enough for all reserved deliveries, so that adding an outcome never waits. */
  readonly #ended = new BoundedBuffer<FinishedAttempt>(MAX_HELD_DELIVERIES);
  readonly #sending = new Set<Promise<void>>();

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  async run(signal: AbortSignal): Promise<void> {
    const { logger, health } = this.#options;
    const context = { logger, health, signal };
    const claiming = retryForever("claims", context, (markHealthy) => this.#claimUntil(signal, markHealthy));
    const searching = retryForever("search", context, (markHealthy) =>
      this.#searchUntil(signal, markHealthy),
    );
    const writing = writeOutcomesWhenEnded(
      this.#options,
      this.#ended,
      (outcomes) => this.#letGo(outcomes),
      signal,
    );
    await Promise.all([claiming, searching]);
    await finish(this.#underWay, this.#sending);
    this.#ended.close();
    await writing;
    await releaseUnfinished(this.#underWay, this.#options);
  }

  async #claimUntil(signal: AbortSignal, markHealthy: () => void): Promise<void> {
    const { due } = this.#options;
    while (!signal.aborted) {
      const allotments = this.#slots.allot(due);
      if (allotments.length === 0) {
        await due.sleep(MAX_CLAIM_INTERVAL_MS, signal);
        continue;
      }
      await this.#claim(allotments);
      markHealthy();
      await pause(CLAIM_INTERVAL_MS, signal);
    }
  }

  /** Claims due deliveries, and starts their attempts without waiting for them. */
  async #claim(allotments: readonly Allotment[]): Promise<void> {
    const { pool, due, clock } = this.#options;
    const additions = due.additions();
    const now = clock();
    const leaseMs = leaseFor(this.#options);
    const held = overdue(this.#underWay, now);
    const { claimed, endpoints } = await claimDue(pool, allotments, held, now, leaseMs);
    for (const { endpoint, failing, more } of endpoints) {
      if (more) due.setFailing(endpoint, failing);
      else due.remove(endpoint, additions);
    }
    for (const one of claimed) {
      const sent = this.#attempt(one, now + leaseMs).finally(() => this.#sending.delete(sent));
      this.#sending.add(sent);
    }
  }

  async #attempt(claimed: ClaimedDelivery, leaseEndsAt: number): Promise<void> {
    const cut = new AbortController();
    const slot = this.#slots.take(claimed);
    this.#underWay.set(claimed.deliveryId, { claimed, slot, cut, leaseEndsAt });
    const result = await deliver(claimed, this.#options, cut.signal);
    if (!result) return;
    // The delivery stays reserved until its outcome is recorded.
    this.#slots.free(slot);
    const { schedule, random, clock } = this.#options;
    const verdict = judge(result, { attempts: claimed.attempts, schedule, now: clock(), random: random() });
    await this.#ended.push({ claimed, result, verdict });
  }

  /** Searches for endpoints with deliveries that became due, or that another process added or released. */
  async #searchUntil(signal: AbortSignal, markHealthy: () => void): Promise<void> {
    const { pool, due, search, clock } = this.#options;
    while (!signal.aborted) {
      const began = performance.now();
      const known = { first: due.in("first"), retry: due.in("retry") };
      due.add(await findDueEndpoints(pool, known, clock()));
      markHealthy();
      this.#slots.forget();
      await pause((performance.now() - began) * SEARCH_REST_FACTOR, signal);
      await search.sleep(SEARCH_INTERVAL_MS, signal);
    }
  }

  /** Ends the reservation of deliveries whose outcomes are recorded. */
  #letGo(outcomes: readonly FinishedAttempt[]): void {
    for (const { claimed } of outcomes) {
      const written = this.#underWay.get(claimed.deliveryId);
      if (written && this.#underWay.delete(claimed.deliveryId)) this.#slots.letGo(written.slot);
    }
    this.#options.due.wake();
  }
}

/** Returns the ids of reserved deliveries whose lease has expired. */
function overdue(underWay: ReadonlyMap<string, UnderWay>, now: number): string[] {
  return [...underWay].filter(([, { leaseEndsAt }]) => leaseEndsAt <= now).map(([deliveryId]) => deliveryId);
}

/** Waits until all current attempts have finished. Interrupts attempts that take too long. */
async function finish(
  underWay: ReadonlyMap<string, UnderWay>,
  sending: ReadonlySet<Promise<void>>,
): Promise<void> {
  const overtime = setTimeout(() => {
    for (const { cut } of underWay.values()) cut.abort();
  }, FINISH_TIMEOUT_MS);
  await Promise.all(sending);
  clearTimeout(overtime);
}

/** Releases the leases of interrupted attempts, so that other processes can claim the deliveries immediately. */
async function releaseUnfinished(
  underWay: ReadonlyMap<string, UnderWay>,
  options: SenderOptions,
): Promise<void> {
  const unfinished = [...underWay.values()].filter(({ cut }) => cut.signal.aborted);
  if (unfinished.length === 0) return;
  try {
    await releaseLeases(
      options.pool,
      unfinished.map(({ claimed }) => claimed),
      options.clock(),
    );
  } catch (error) {
    options.logger.warn({ error }, "Leases of interrupted attempts could not be released and will expire.");
  }
}
