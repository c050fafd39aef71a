import { type Environment, environment as environments } from "../../shared/domain/events/fields.ts";
import { createNotifier, type Notifier, pause } from "../../shared/runtime/backoff.ts";
import { BoundedBuffer } from "../../shared/runtime/bounded-buffer.ts";
import { repeat } from "../../shared/runtime/work.ts";
import type { RevocationWatch } from "./match/revocations.ts";
import { type OutcomeWriterOptions, runOutcomeWriter } from "./record/outcome-writer.ts";
import { releaseLeases } from "./record/outcomes.ts";
import { findDueEndpoints } from "./schedule/due.ts";
import { type DueEndpoint, type Grant, MAX_CLAIMED, Schedule } from "./schedule/schedule.ts";
import type { FinishedAttempt } from "./send/attempt-delivery.ts";
import { type AttemptOptions, attemptDelivery } from "./send/attempt-delivery.ts";
import { type ClaimedDelivery, claimDueDeliveries } from "./send/claim.ts";
import { judgeAttempt } from "./send/retry-policy.ts";
import type { AttemptLimits } from "./send/send.ts";
import type { WebhooksSession } from "./session.ts";

interface SenderOptions extends AttemptOptions, OutcomeWriterOptions {
  scheduleSeconds: readonly number[];
  searchNotifier: Notifier;
  session: WebhooksSession;
  revocations: RevocationWatch;
  /** Returns a random number from 0 inclusive to 1 exclusive. */
  random(): number;
}

/** Pause between two searches for due deliveries. A retry can be late by about twice this time. */
const SEARCH_INTERVAL_MS = 200;

/** Pause between searches while no delivery is pending. A process may stop before it sends a delivery that it added. */
const IDLE_SEARCH_INTERVAL_MS = 1_000;

/** Minimum pause after a search, as a multiple of the search's duration. Limits the load on the database. */
const MIN_SEARCH_PAUSE_FACTOR = 9;

/** Pause between two claims, so that each claim finds several due deliveries. */
const CLAIM_INTERVAL_MS = 5;

/** Maximum pause between claims while deliveries are due. New deliveries and finished attempts end the pause. */
const MAX_CLAIM_INTERVAL_MS = 25;

/**
 * Returns twice the maximum duration of an attempt, plus one second, so that the outcome is recorded before the lease
 * expires.
 */
const calculateLeaseMs = (limits: AttemptLimits) => 2 * (limits.connectTimeoutMs + limits.timeoutMs) + 1_000;

/** Time for current attempts to finish when the role stops. Longer attempts are interrupted. */
const FINISH_TIMEOUT_MS = 1_500;

interface ReservedDelivery {
  delivery: ClaimedDelivery;
  senderId: string;
  interruptController: AbortController;
  leaseEndsAt: number;
  /** Stops counting the finished attempt as claimed. Absent before the end of the attempt, and after the call. */
  endCounting?: () => void;
}

/**
 * Sends due deliveries. Any number of processes can run a sender at the same time. The sender records an attempt before
 * it sends the request, and records the outcome before it claims the same delivery for a retry. The limits for
 * endpoints, applications and environments apply to each process.
 */
export class Sender {
  readonly #options: SenderOptions;
  readonly #schedules = Object.fromEntries(
    environments.options.map((environment) => [environment, new Schedule(() => performance.now())]),
  ) as Record<Environment, Schedule>;
  readonly #claimNotifier = createNotifier();
  readonly #reservedDeliveries = new Map<string, ReservedDelivery>();
  /** Buffer with room for all reserved deliveries, so that adding an outcome never waits. */
  readonly #finishedAttempts = new BoundedBuffer<FinishedAttempt>(environments.options.length * MAX_CLAIMED);
  readonly #attempts = new Set<Promise<void>>();
  /** True if the last search found pending deliveries. */
  #hasPending = true;
  #isStopped = false;

  constructor(options: SenderOptions) {
    this.#options = options;
  }

  /** Runs until the signal aborts. Then finishes or interrupts the current attempts. */
  async run(signal: AbortSignal): Promise<void> {
    const { createLoop, searchNotifier } = this.#options;
    const callbacks = {
      onWritten: (outcomes: readonly FinishedAttempt[]) => this.#release(outcomes),
      onWaiting: (outcomes: readonly FinishedAttempt[]) => this.#endCounting(outcomes),
    };
    const writePromise = runOutcomeWriter(this.#options, this.#finishedAttempts, callbacks, signal);
    const sleepUntilDue = () => {
      const hasDue = Object.values(this.#schedules).some((schedule) => schedule.hasDue);
      return this.#claimNotifier.sleep(hasDue ? MAX_CLAIM_INTERVAL_MS : IDLE_SEARCH_INTERVAL_MS, signal);
    };
    const sleepUntilSearch = () =>
      searchNotifier.sleep(this.#hasPending ? SEARCH_INTERVAL_MS : IDLE_SEARCH_INTERVAL_MS, signal);
    await Promise.all([
      repeat(createLoop("claims"), () => this.#claimGranted(signal), sleepUntilDue),
      repeat(createLoop("search"), () => this.#search(signal), sleepUntilSearch),
    ]);
    this.#isStopped = true;
    await this.#finishAttempts();
    this.#finishedAttempts.close();
    await writePromise;
    await this.#releaseInterrupted();
  }

  /** Adds endpoints with due deliveries, and wakes the sender. */
  addDue(endpoints: readonly DueEndpoint[]): void {
    for (const endpoint of endpoints) this.#schedules[endpoint.environment].add(endpoint);
    if (endpoints.length > 0) this.#claimNotifier.wake();
  }

  /**
   * Claims deliveries for the current grants, and starts their attempts.
   *
   * @returns false if nothing can be claimed now
   */
  async #claimGranted(signal: AbortSignal): Promise<boolean> {
    const { session, revocations } = this.#options;
    const senderId = revocations.isCurrent ? session.senderId : undefined;
    if (senderId === undefined) return false;
    const grants = Object.values(this.#schedules).flatMap((schedule) => schedule.grant());
    if (grants.length === 0) return false;
    await this.#claim(grants, senderId);
    await pause(CLAIM_INTERVAL_MS, signal);
    return true;
  }

  /** Starts an attempt for each claimed delivery, without waiting for the outcome. */
  async #claim(grants: readonly Grant[], senderId: string): Promise<void> {
    const { pool, clock } = this.#options;
    const now = clock();
    const leaseMs = calculateLeaseMs(this.#options);
    const excludedIds = this.#listUnleased(senderId, now);
    const lease = { senderId, leaseMs };
    const { deliveries, endpoints } = await claimDueDeliveries(pool, grants, excludedIds, lease, now);
    for (const { endpoint, ...state } of endpoints) this.#schedules[endpoint.environment].recordClaim(endpoint, state);
    // A lease that starts no attempt ends together with the session.
    if (this.#isStopped) return;
    for (const delivery of deliveries) {
      const attemptPromise = this.#attempt(delivery, { senderId, leaseEndsAt: now + leaseMs }).finally(() =>
        this.#attempts.delete(attemptPromise),
      );
      this.#attempts.add(attemptPromise);
    }
  }

  /** Lists the reserved deliveries whose lease has expired or is of an earlier database session. */
  #listUnleased(senderId: string, now: number): string[] {
    return [...this.#reservedDeliveries]
      .filter(([, reserved]) => reserved.leaseEndsAt <= now || reserved.senderId !== senderId)
      .map(([id]) => id);
  }

  async #attempt(delivery: ClaimedDelivery, lease: Pick<ReservedDelivery, "senderId" | "leaseEndsAt">): Promise<void> {
    const interruptController = new AbortController();
    const endAttempt = this.#schedules[delivery.environment].start(delivery);
    const reserved: ReservedDelivery = { delivery, interruptController, ...lease };
    this.#reservedDeliveries.set(delivery.deliveryId, reserved);
    const result = await attemptDelivery(delivery, this.#options, interruptController.signal);
    if (!result) return;
    const { scheduleSeconds, random, clock } = this.#options;
    const context = { attemptCount: delivery.failedAttemptCount + 1, scheduleSeconds, now: clock(), random: random() };
    const verdict = judgeAttempt(result, context);
    // The delivery stays reserved until its outcome is recorded.
    reserved.endCounting = endAttempt(verdict.status === "delivered");
    this.#claimNotifier.wake();
    await this.#finishedAttempts.push({ delivery, result, verdict });
  }

  /** Searches for endpoints with deliveries that have become due, or that another process has added or released. */
  async #search(signal: AbortSignal): Promise<void> {
    const { pool, clock } = this.#options;
    const schedules = Object.values(this.#schedules);
    const startedAt = performance.now();
    const knownIds = schedules.flatMap((schedule) => schedule.listDueIds());
    const { endpoints, hasPending } = await findDueEndpoints(pool, knownIds, clock());
    this.#hasPending = hasPending;
    this.addDue(endpoints);
    for (const schedule of schedules) schedule.removeUnused();
    await pause((performance.now() - startedAt) * MIN_SEARCH_PAUSE_FACTOR, signal);
  }

  /** Stops counting finished attempts as claimed, even if their outcomes are not written yet. */
  #endCounting(outcomes: readonly FinishedAttempt[]): void {
    for (const { delivery } of outcomes) {
      const reserved = this.#reservedDeliveries.get(delivery.deliveryId);
      reserved?.endCounting?.();
      if (reserved) delete reserved.endCounting;
    }
  }

  /** Ends the reservation of deliveries whose outcomes are recorded. */
  #release(outcomes: readonly FinishedAttempt[]): void {
    this.#endCounting(outcomes);
    for (const { delivery } of outcomes) this.#reservedDeliveries.delete(delivery.deliveryId);
    const { searchNotifier } = this.#options;
    this.#claimNotifier.wake();
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
