import type pg from "pg";
import { type Notifier, pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import type { InsertedClaim } from "./match/match-event.ts";
import { type OutcomeWriterOptions, runOutcomeWriter } from "./record/outcome-writer.ts";
import { releaseLeases } from "./record/outcomes.ts";
import { retryForever } from "./record/retry-forever.ts";
import { type DueEndpoint, type DueEndpoints, findDueEndpoints } from "./schedule/due.ts";
import { MAX_RESERVED_DELIVERIES, type Slot, type SlotGrant, Slots } from "./schedule/slots.ts";
import type { FinishedAttempt } from "./send/attempt-delivery.ts";
import { type AttemptOptions, attemptDelivery } from "./send/attempt-delivery.ts";
import { type ClaimedDelivery, claimDueDeliveries } from "./send/claim.ts";
import { judgeAttempt } from "./send/retry-policy.ts";
import type { AttemptLimits } from "./send/send.ts";
import type { WebhooksSession } from "./session.ts";

interface SenderOptions extends AttemptOptions, OutcomeWriterOptions {
  scheduleSeconds: readonly number[];
  dueEndpoints: DueEndpoints;
  searchNotifier: Notifier;
  session: WebhooksSession;
  /** Returns a random number from 0 inclusive to 1 exclusive. */
  random(): number;
}

/** Pause between two searches for due deliveries. A retry can be late by about twice this time. */
const SEARCH_INTERVAL_MS = 200;

/** Pause between two searches while no delivery is pending. Another process may add one and stop. */
const IDLE_SEARCH_INTERVAL_MS = 1_000;

/** Minimum pause after a search, as a multiple of the search's duration. Limits the load on the database. */
const MIN_SEARCH_PAUSE_FACTOR = 9;

/** Pause between two claims, so that each claim finds several due deliveries. */
const CLAIM_INTERVAL_MS = 5;

/**
 * Maximum pause between two decisions about slots. New deliveries and recorded outcomes wake the sender earlier. An
 * application that waits only because of its start pace waits for the whole pause.
 */
const MAX_CLAIM_INTERVAL_MS = 25;

/**
 * Twice the maximum duration of an attempt, plus one second. The outcome of the attempt must be recorded before the
 * lease expires.
 */
const calculateLeaseMs = (limits: AttemptLimits) => 2 * (limits.connectTimeoutMs + limits.timeoutMs) + 1_000;

/** Time for current attempts to finish when the role stops. Longer attempts are interrupted. */
const FINISH_TIMEOUT_MS = 1_500;

interface ReservedDelivery {
  delivery: ClaimedDelivery;
  senderId: string;
  slot: Slot;
  interruptController: AbortController;
  leaseEndsAt: number;
  /** True if the delivery no longer counts as reserved, because its outcome waits for a locked row. */
  isWaiting: boolean;
}

/**
 * Sends due deliveries. Any number of processes can run a sender at the same time. The sender records an attempt before
 * it sends the request, and records the outcome before it claims the same delivery for a retry. Each process has
 * separate slots, so the limits for endpoints, applications and environments apply to each process.
 */
export class Sender {
  readonly #options: SenderOptions;
  readonly #slots = new Slots(() => performance.now());
  readonly #reservedDeliveries = new Map<string, ReservedDelivery>();
  /** Has room for all reserved deliveries, so that adding an outcome never waits. */
  readonly #finishedAttempts = new BoundedBuffer<FinishedAttempt>(MAX_RESERVED_DELIVERIES);
  readonly #attempts = new Set<Promise<void>>();
  #isClaiming = false;
  /** As of the last search. */
  #hasPending = true;
  #isStopped = false;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** Runs until the signal aborts. Then finishes or interrupts the current attempts. */
  async run(signal: AbortSignal): Promise<void> {
    const { logger, health } = this.#options;
    const context = { logger, health, signal };
    const callbacks = {
      onWritten: (outcomes: readonly FinishedAttempt[]) => this.#release(outcomes),
      onWaiting: (outcomes: readonly FinishedAttempt[]) => this.#endCounting(outcomes),
    };
    const writePromise = runOutcomeWriter(this.#options, this.#finishedAttempts, callbacks, signal);
    await Promise.all([
      retryForever("claims", context, (markHealthy) => this.#claimUntil(signal, markHealthy)),
      retryForever("search", context, (markHealthy) => this.#searchUntil(signal, markHealthy)),
    ]);
    this.#isStopped = true;
    await this.#finishAttempts();
    this.#finishedAttempts.close();
    await writePromise;
    await this.#releaseInterrupted();
  }

  /**
   * Claims deliveries in the transaction that has inserted them, so that they wait for one commit instead of two. Does
   * nothing while other deliveries are due, because the next claim then takes several deliveries at once.
   *
   * @param client connection of the transaction
   */
  async claimInserted(client: pg.ClientBase, endpoints: readonly DueEndpoint[]): Promise<InsertedClaim | undefined> {
    const { dueEndpoints, session } = this.#options;
    const { senderId } = session;
    if (this.#isStopped || this.#isClaiming || senderId === undefined || !dueEndpoints.isEmpty) return undefined;
    dueEndpoints.add(endpoints);
    const grants = this.#slots.grant(dueEndpoints);
    if (grants.length === 0) return undefined;
    this.#isClaiming = true;
    const endClaim = () => {
      this.#isClaiming = false;
      dueEndpoints.wake();
    };
    try {
      const startAttempts = await this.#claim(client, grants, senderId);
      return { startAttempts, end: endClaim };
    } catch (error) {
      endClaim();
      throw error;
    }
  }

  async #claimUntil(signal: AbortSignal, markHealthy: () => void): Promise<void> {
    const { dueEndpoints, session } = this.#options;
    while (!signal.aborted) {
      const { senderId } = session;
      const mayClaim = senderId !== undefined && !this.#isClaiming;
      const grants = mayClaim ? this.#slots.grant(dueEndpoints) : [];
      if (!mayClaim || grants.length === 0) {
        await dueEndpoints.sleep(dueEndpoints.isEmpty ? IDLE_SEARCH_INTERVAL_MS : MAX_CLAIM_INTERVAL_MS, signal);
        continue;
      }
      this.#isClaiming = true;
      try {
        const startAttempts = await this.#claim(this.#options.pool, grants, senderId);
        startAttempts();
      } finally {
        this.#isClaiming = false;
      }
      markHealthy();
      await pause(CLAIM_INTERVAL_MS, signal);
    }
  }

  /** @returns function that starts an attempt for each claimed delivery, without waiting for the outcome */
  async #claim(db: pg.Pool | pg.ClientBase, grants: readonly SlotGrant[], senderId: string): Promise<() => void> {
    const { dueEndpoints, clock } = this.#options;
    const { version } = dueEndpoints;
    const now = clock();
    const leaseMs = calculateLeaseMs(this.#options);
    const excludedIds = this.#listUnleased(senderId, now);
    const lease = { senderId, leaseMs };
    const { deliveries, endpoints } = await claimDueDeliveries(db, grants, excludedIds, lease, now);
    for (const { endpoint, isFailing, hasMore, pauseMs } of endpoints) {
      if (hasMore) dueEndpoints.update(endpoint, { isFailing, notBefore: performance.now() + pauseMs });
      else dueEndpoints.remove(endpoint, version);
    }
    return () => {
      // A lease that starts no attempt ends together with the session.
      if (this.#isStopped) return;
      for (const delivery of deliveries) {
        const attemptPromise = this.#attempt(delivery, { senderId, leaseEndsAt: now + leaseMs }).finally(() =>
          this.#attempts.delete(attemptPromise),
        );
        this.#attempts.add(attemptPromise);
      }
    };
  }

  /** Lists the reserved deliveries whose lease may have ended: it has expired, or belongs to an earlier session. */
  #listUnleased(senderId: string, now: number): string[] {
    return [...this.#reservedDeliveries]
      .filter(([, reserved]) => reserved.leaseEndsAt <= now || reserved.senderId !== senderId)
      .map(([id]) => id);
  }

  async #attempt(delivery: ClaimedDelivery, lease: Pick<ReservedDelivery, "senderId" | "leaseEndsAt">): Promise<void> {
    const interruptController = new AbortController();
    const slot = this.#slots.reserve(delivery);
    this.#reservedDeliveries.set(delivery.deliveryId, {
      delivery,
      slot,
      interruptController,
      ...lease,
      isWaiting: false,
    });
    const result = await attemptDelivery(delivery, this.#options, interruptController.signal);
    if (!result) return;
    const { scheduleSeconds, random, clock } = this.#options;
    const context = { attemptCount: delivery.attempts, scheduleSeconds, now: clock(), random: random() };
    const verdict = judgeAttempt(result, context);
    // The delivery stays reserved until its outcome is recorded.
    this.#slots.free(slot, verdict.status === "delivered");
    await this.#finishedAttempts.push({ delivery, result, verdict });
  }

  /** Searches for endpoints with deliveries that have become due, or that another process has added or released. */
  async #searchUntil(signal: AbortSignal, markHealthy: () => void): Promise<void> {
    const { pool, dueEndpoints, searchNotifier, clock } = this.#options;
    while (!signal.aborted) {
      const startedAt = performance.now();
      const [firstIds, retryIds] = [dueEndpoints.listEndpointIds("first"), dueEndpoints.listEndpointIds("retry")];
      const known = { first: firstIds, retry: retryIds };
      const { endpoints, hasPending } = await findDueEndpoints(pool, known, clock());
      this.#hasPending = hasPending;
      if (endpoints.length > 0) dueEndpoints.add(endpoints);
      markHealthy();
      this.#slots.removeUnused();
      await pause((performance.now() - startedAt) * MIN_SEARCH_PAUSE_FACTOR, signal);
      await searchNotifier.sleep(hasPending ? SEARCH_INTERVAL_MS : IDLE_SEARCH_INTERVAL_MS, signal);
    }
  }

  /** Lets other deliveries be claimed instead of those whose outcomes wait for locked rows. */
  #endCounting(outcomes: readonly FinishedAttempt[]): void {
    for (const { delivery } of outcomes) {
      const reserved = this.#reservedDeliveries.get(delivery.deliveryId);
      if (!reserved || reserved.isWaiting) continue;
      reserved.isWaiting = true;
      this.#slots.release(reserved.slot);
    }
  }

  /** Ends the reservation of deliveries whose outcomes are recorded. */
  #release(outcomes: readonly FinishedAttempt[]): void {
    this.#endCounting(outcomes);
    for (const { delivery } of outcomes) this.#reservedDeliveries.delete(delivery.deliveryId);
    const { dueEndpoints, searchNotifier } = this.#options;
    dueEndpoints.wake();
    if (!this.#hasPending && outcomes.some(({ verdict }) => verdict.status === "pending")) searchNotifier.wake();
  }

  /** Waits until all current attempts have finished. Interrupts attempts that take too long. */
  async #finishAttempts(): Promise<void> {
    const timer = setTimeout(() => {
      for (const { interruptController } of this.#reservedDeliveries.values()) interruptController.abort();
    }, FINISH_TIMEOUT_MS);
    await Promise.all(this.#attempts);
    clearTimeout(timer);
  }

  /** Releases the leases of interrupted attempts, so that other processes can claim the deliveries immediately. */
  async #releaseInterrupted(): Promise<void> {
    const { pool, clock, logger } = this.#options;
    const interruptedDeliveries = [...this.#reservedDeliveries.values()].filter(
      ({ interruptController }) => interruptController.signal.aborted,
    );
    if (interruptedDeliveries.length === 0) return;
    const deliveries = interruptedDeliveries.map(({ delivery }) => delivery);
    try {
      await releaseLeases(pool, deliveries, clock());
    } catch (error) {
      logger.warn({ error }, "Leases of interrupted attempts could not be released and will expire.");
    }
  }
}
