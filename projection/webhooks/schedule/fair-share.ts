export interface WaitingEndpoint {
  occupiedSlots: number;
  maxSlots: number;
  /** Slot time that the endpoint used recently, see {@link SlotUse}. */
  usedMs: number;
}

export interface WaitingApplication<Endpoint extends WaitingEndpoint> {
  occupiedSlots: number;
  /** Slot time that all endpoints of the application used recently. */
  usedMs: number;
  /** Maximum number of slots that one decision may grant to the application. */
  maxNewSlots: number;
  /** Lists the application's endpoints with due deliveries. Called only if the application may get a slot. */
  listEndpoints(): readonly Endpoint[];
}

/** The slots that applications share, in one lane and environment. */
export interface SlotPool {
  slotCount: number;
  occupiedSlots: number;
  /** Maximum number of slots that one decision may grant. */
  maxNewSlots: number;
}

/** Limit of an application, as a share of the free slots. */
const MAX_SHARE = 1 / 4;

/**
 * Limit of an endpoint, as a share of the slots that its application may still occupy. With a smaller share, the only
 * endpoint of an application could not use the slots that the lane permits.
 */
const MAX_ENDPOINT_SHARE = 1 / 2;

/**
 * Decides how many slots each endpoint with due deliveries gets now.
 *
 * The limits are dynamic thresholds, a technique for sharing buffers (Choudhury and Hahne). The limit of an application
 * is a quarter of the free slots, but at least one slot. The limit drops as the application occupies slots, so a single
 * application stops at a fifth of all slots. Each further application gets a share of the slots that are still free.
 * The slots of an application are divided among its endpoints in the same way, with a share of a half.
 *
 * Slots are granted in rounds, one slot per application and round. The application that used the least slot time
 * recently comes first. The endpoints of an application follow the same order. Successful and failed attempts count
 * equally.
 *
 * @returns number of granted slots by endpoint
 */
export function grantSlots<Endpoint extends WaitingEndpoint>(
  { slotCount, occupiedSlots, maxNewSlots }: SlotPool,
  applications: readonly WaitingApplication<Endpoint>[],
): Map<Endpoint, number> {
  const slotCountsByEndpoint = new Map<Endpoint, number>();
  let freeSlots = slotCount - occupiedSlots;
  let remainingSlots = Math.min(maxNewSlots, freeSlots);
  const eligibleApplications = applications.filter(
    (application) => application.occupiedSlots < calculateShare(freeSlots) && application.maxNewSlots > 0,
  );
  let granters = eligibleApplications
    .sort((a, b) => a.usedMs - b.usedMs || a.occupiedSlots - b.occupiedSlots)
    .map(createGranter);
  while (remainingSlots > 0 && granters.length > 0) {
    const nextGranters: typeof granters = [];
    for (const grantOneSlot of granters) {
      const endpoint = remainingSlots > 0 ? grantOneSlot(freeSlots) : undefined;
      if (!endpoint) continue;
      slotCountsByEndpoint.set(endpoint, (slotCountsByEndpoint.get(endpoint) ?? 0) + 1);
      freeSlots -= 1;
      remainingSlots -= 1;
      nextGranters.push(grantOneSlot);
    }
    granters = nextGranters;
  }
  return slotCountsByEndpoint;
}

/**
 * Creates a function that grants one slot to an endpoint of the application. The function returns the endpoint, or
 * undefined if no endpoint may get a slot.
 */
function createGranter<Endpoint extends WaitingEndpoint>(
  application: WaitingApplication<Endpoint>,
): (freeSlots: number) => Endpoint | undefined {
  let { occupiedSlots, maxNewSlots } = application;
  let queue: { endpoint: Endpoint; occupiedSlots: number }[] | undefined;
  return (freeSlots) => {
    const share = calculateShare(freeSlots);
    if (occupiedSlots >= share || maxNewSlots === 0) return undefined;
    queue ??= application
      .listEndpoints()
      .toSorted((a, b) => a.usedMs - b.usedMs)
      .map((endpoint) => ({ endpoint, occupiedSlots: endpoint.occupiedSlots }));
    for (let candidate = queue.shift(); candidate; candidate = queue.shift()) {
      const limit = Math.min(candidate.endpoint.maxSlots, calculateShare(share - occupiedSlots, MAX_ENDPOINT_SHARE));
      // Limits only decrease during a decision, so an endpoint that has reached its limit gets no more slots.
      if (candidate.occupiedSlots >= limit) continue;
      occupiedSlots += 1;
      maxNewSlots -= 1;
      candidate.occupiedSlots += 1;
      queue.push(candidate);
      return candidate.endpoint;
    }
    return undefined;
  };
}

/** Returns the maximum number of slots for one application or endpoint: a share of the given slots, at least one. */
export function calculateShare(slotCount: number, share = MAX_SHARE): number {
  return Math.max(1, Math.floor(slotCount * share));
}

/** Half-life of the slot time of finished attempts. */
const HALF_LIFE_MS = 30_000;

/** Slot time below which an application or endpoint without current attempts is no longer tracked. */
const MIN_TRACKED_MS = 1;

/**
 * Occupied slots and recent slot time of an application or endpoint. The recent slot time is the total age of attempts
 * in progress plus the total duration of finished attempts. The duration of finished attempts decays with a half-life
 * of 30 seconds. All times are in milliseconds of the same clock.
 */
export class SlotUse {
  #occupiedSlots = 0;
  /** Sum of the start times of all attempts in progress, from which `#sumAges` calculates the sum of their ages. */
  #startTimeSum = 0;
  /** Total duration of finished attempts, decayed as of `#lastFinishedAt`. */
  #finishedMs = 0;
  /** Number of finished attempts, decayed as of `#lastFinishedAt`. */
  #finishedCount = 0;
  #lastFinishedAt = 0;

  get occupiedSlots(): number {
    return this.#occupiedSlots;
  }

  start(now: number): void {
    this.#occupiedSlots += 1;
    this.#startTimeSum += now;
  }

  end(startedAt: number, now: number): void {
    this.#occupiedSlots -= 1;
    this.#startTimeSum -= startedAt;
    this.#finishedMs = this.#decay(this.#finishedMs, now) + now - startedAt;
    this.#finishedCount = this.#decay(this.#finishedCount, now) + 1;
    this.#lastFinishedAt = now;
  }

  calculateUsedMs(now: number): number {
    return this.#decay(this.#finishedMs, now) + this.#sumAges(now);
  }

  /**
   * Estimates the duration of the next attempt. The estimate is the average duration of recent attempts, or the average
   * age of attempts in progress if that age is longer.
   *
   * @param defaultMs estimate if no attempt has finished yet
   */
  estimateAttemptMs(now: number, defaultMs: number): number {
    const meanMs = this.#finishedCount === 0 ? defaultMs : this.#finishedMs / this.#finishedCount;
    return this.#occupiedSlots === 0 ? meanMs : Math.max(meanMs, this.#sumAges(now) / this.#occupiedSlots);
  }

  isNegligible(now: number): boolean {
    return this.#occupiedSlots === 0 && this.#decay(this.#finishedMs, now) < MIN_TRACKED_MS;
  }

  #sumAges(now: number): number {
    return this.#occupiedSlots * now - this.#startTimeSum;
  }

  #decay(sum: number, now: number): number {
    return sum * 0.5 ** ((now - this.#lastFinishedAt) / HALF_LIFE_MS);
  }
}
