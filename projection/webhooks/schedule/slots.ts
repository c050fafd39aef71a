import { type Environment, environment as environments } from "../../../shared/domain/events/fields.ts";
import type { DueEndpoint, DueEndpoints, Lane } from "./due.ts";
import { calculateShare, grantSlots, SlotUse } from "./fair-share.ts";

/** Free slots that one endpoint may use now. */
export interface SlotGrant extends DueEndpoint {
  slotCount: number;
  occupiedSlots: number;
}

export interface Slot {
  endpoint: DueEndpoint;
  startedAt: number;
}

interface LaneLimits {
  slotCount: number;
  /** An endpoint may always use the minimum. The maximum is for endpoints that have answered well, see {@link Slots.free}. */
  minSlotsPerEndpoint: number;
  maxSlotsPerEndpoint: number;
  /**
   * Maximum number of slots that one decision grants. Equal to the number of slots that one application can occupy.
   */
  maxSlotsPerDecision: number;
}

/**
 * Slot limits of one process. A hanging attempt costs a socket and about 30 KB of memory. For the limits of an
 * application, see {@link grantSlots}.
 */
export const LANE_LIMITS: Record<Lane, LaneLimits> = {
  first: { slotCount: 960, minSlotsPerEndpoint: 4, maxSlotsPerEndpoint: 64, maxSlotsPerDecision: 192 },
  retry: { slotCount: 320, minSlotsPerEndpoint: 2, maxSlotsPerEndpoint: 2, maxSlotsPerDecision: 64 },
};

/**
 * Expected duration of an attempt if no finished attempt of the application is recorded. Equal to the default time limit
 * of a response.
 */
const DEFAULT_ATTEMPT_MS = 10_000;

const MIN_ATTEMPT_MS = 1;

const MAX_SLOTS_WHILE_FAILING = 1;

/** A longer attempt does not let its endpoint use more slots. */
const MAX_QUICK_ATTEMPT_MS = 1_000;

/** Maximum number of reserved deliveries per slot: one attempt in progress, and one outcome that is not yet recorded. */
const MAX_RESERVED_PER_SLOT = 2;

export const MAX_RESERVED_DELIVERIES =
  environments.options.length * MAX_RESERVED_PER_SLOT * (LANE_LIMITS.first.slotCount + LANE_LIMITS.retry.slotCount);

/** Number of attempts that may start together after a pause, even if the spacing is long. */
const MAX_BURST_STARTS = 4;

/** Time for which missed starts can be made up at once. Longer than the time between two decisions. */
const MAX_CATCH_UP_MS = 50;

/**
 * Spreads the starts of attempts evenly over time, using the generic cell rate algorithm. All times are in milliseconds
 * of the same clock.
 */
class StartPace {
  /** Time at which the next attempt would start if all starts were evenly spaced. */
  #theoreticalStartAt = Number.NEGATIVE_INFINITY;

  /** @param spacingMs required average time between two starts */
  countPossibleStarts(now: number, spacingMs: number): number {
    const aheadMs = Math.max(0, this.#theoreticalStartAt - now);
    const toleratedStarts = Math.max(MAX_CATCH_UP_MS / spacingMs, MAX_BURST_STARTS - 1);
    return Math.max(0, Math.floor(toleratedStarts - aheadMs / spacingMs) + 1);
  }

  start(now: number, spacingMs: number): void {
    this.#theoreticalStartAt = Math.max(this.#theoreticalStartAt, now) + spacingMs;
  }
}

interface PacedUse {
  slotUse: SlotUse;
  pace: StartPace;
}

interface EndpointUse {
  slotUse: SlotUse;
  maxSlots: number;
}

/** The slots of one lane in one environment, and how applications and endpoints use these slots. */
interface LanePool {
  lane: Lane;
  environment: Environment;
  totalUse: SlotUse;
  /** Number of claimed deliveries whose outcome is not yet recorded. */
  reservedDeliveryCount: number;
  /** True if several applications had due deliveries at the last decision. */
  isShared: boolean;
  applications: Map<string, PacedUse>;
  endpoints: Map<string, EndpointUse>;
}

/** The slots of this process. Each lane of each environment has separate slots. */
export class Slots {
  readonly #clock: () => number;
  readonly #pools = (["first", "retry"] as const).flatMap((lane) =>
    environments.options.map((environment) => createPool(lane, environment)),
  );

  /** @param clock returns the milliseconds since any fixed point in time */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  /**
   * Decides which endpoints may use free slots now, and how many slots each may use. The lanes take turns in coming
   * first, because the first attempts and the retries of an endpoint share its rate limit.
   */
  grant(dueEndpoints: DueEndpoints): SlotGrant[] {
    const grants = this.#pools.flatMap((pool) => grantFromPool(pool, dueEndpoints, this.#clock()));
    if (grants.length > 0) this.#pools.reverse();
    return grants;
  }

  reserve(endpoint: DueEndpoint): Slot {
    const startedAt = this.#clock();
    const pool = this.#findPool(endpoint);
    pool.reservedDeliveryCount += 1;
    const { slotUse, pace } = findOrAddApplication(pool, endpoint);
    pace.start(startedAt, calculateSpacingMs(pool, slotUse, startedAt));
    for (const slotUse of listUses(pool, endpoint)) slotUse.start(startedAt);
    return { endpoint, startedAt };
  }

  /**
   * Frees the slot of a finished attempt. The delivery stays reserved until `release`.
   *
   * An endpoint that uses all its slots gets one more after a quick success, unless other applications have due
   * deliveries. A failed or slow attempt halves the number of its slots.
   */
  free({ endpoint, startedAt }: Slot, isSuccess: boolean): void {
    const now = this.#clock();
    const pool = this.#findPool(endpoint);
    const endpointUse = findOrAddEndpoint(pool, endpoint);
    const { minSlotsPerEndpoint, maxSlotsPerEndpoint } = LANE_LIMITS[pool.lane];
    const { maxSlots } = endpointUse;
    if (!isSuccess || now - startedAt > MAX_QUICK_ATTEMPT_MS)
      endpointUse.maxSlots = Math.max(minSlotsPerEndpoint, Math.floor(maxSlots / 2));
    else if (endpointUse.slotUse.occupiedSlots >= maxSlots && !pool.isShared)
      endpointUse.maxSlots = Math.min(maxSlotsPerEndpoint, maxSlots + 1);
    for (const slotUse of listUses(pool, endpoint)) slotUse.end(startedAt, now);
  }

  /** Ends the reservation of a delivery whose slot is free. */
  release({ endpoint }: Slot): void {
    this.#findPool(endpoint).reservedDeliveryCount -= 1;
  }

  removeUnused(): void {
    const now = this.#clock();
    for (const { applications, endpoints } of this.#pools) {
      for (const [id, { slotUse }] of applications) if (slotUse.isNegligible(now)) applications.delete(id);
      for (const [id, { slotUse }] of endpoints) if (slotUse.isNegligible(now)) endpoints.delete(id);
    }
  }

  #findPool({ lane, environment }: DueEndpoint): LanePool {
    const pool = this.#pools.find((candidate) => candidate.lane === lane && candidate.environment === environment);
    if (!pool) throw new Error(`There is no pool of slots for ${lane} attempts in ${environment}.`);
    return pool;
  }
}

function createPool(lane: Lane, environment: Environment): LanePool {
  const applications = new Map<string, PacedUse>();
  const endpoints = new Map<string, EndpointUse>();
  const totalUse = new SlotUse();
  return { lane, environment, totalUse, reservedDeliveryCount: 0, isShared: false, applications, endpoints };
}

/** Stands for applications and endpoints that are not tracked. Never changed. */
const NO_USE: PacedUse = { slotUse: new SlotUse(), pace: new StartPace() };

function findOrAddApplication({ applications }: LanePool, { applicationId }: DueEndpoint): PacedUse {
  const pacedUse = applications.get(applicationId) ?? { slotUse: new SlotUse(), pace: new StartPace() };
  applications.set(applicationId, pacedUse);
  return pacedUse;
}

function findOrAddEndpoint({ lane, endpoints }: LanePool, { endpointId }: DueEndpoint): EndpointUse {
  const { minSlotsPerEndpoint: maxSlots } = LANE_LIMITS[lane];
  const endpointUse = endpoints.get(endpointId) ?? { slotUse: new SlotUse(), maxSlots };
  endpoints.set(endpointId, endpointUse);
  return endpointUse;
}

function listUses(pool: LanePool, endpoint: DueEndpoint): SlotUse[] {
  return [pool.totalUse, findOrAddApplication(pool, endpoint).slotUse, findOrAddEndpoint(pool, endpoint).slotUse];
}

/**
 * Returns the required time between two starts of an application's attempts. If new attempts take as long as recent
 * attempts, the application then uses exactly its share of the slots. Without this spacing, slow attempts would all
 * start and end at the same time.
 */
function calculateSpacingMs({ lane, totalUse }: LanePool, slotUse: SlotUse, now: number): number {
  const attemptMs = Math.max(MIN_ATTEMPT_MS, slotUse.estimateAttemptMs(now, DEFAULT_ATTEMPT_MS));
  return attemptMs / calculateShare(LANE_LIMITS[lane].slotCount - totalUse.occupiedSlots);
}

function grantFromPool(pool: LanePool, dueEndpoints: DueEndpoints, now: number): SlotGrant[] {
  const { lane, environment, totalUse } = pool;
  const { slotCount, minSlotsPerEndpoint, maxSlotsPerDecision } = LANE_LIMITS[lane];
  const entries = dueEndpoints.listEntries(lane, environment);
  pool.isShared = entries.size > 1;
  if (entries.size === 0) return [];
  const waitingApplications = [...entries].map(([applicationId, endpoints]) => {
    const { slotUse, pace } = pool.applications.get(applicationId) ?? NO_USE;
    return {
      occupiedSlots: slotUse.occupiedSlots,
      usedMs: slotUse.calculateUsedMs(now),
      maxNewSlots: pace.countPossibleStarts(now, calculateSpacingMs(pool, slotUse, now)),
      listEndpoints: () =>
        Array.from(endpoints.values(), ({ endpointId, isFailing, notBefore }) => {
          const endpointUse = pool.endpoints.get(endpointId);
          const { slotUse } = endpointUse ?? NO_USE;
          const { occupiedSlots } = slotUse;
          const maxSlotsNow = isFailing ? MAX_SLOTS_WHILE_FAILING : (endpointUse?.maxSlots ?? minSlotsPerEndpoint);
          const maxSlots = notBefore > now ? 0 : maxSlotsNow;
          const usedMs = slotUse.calculateUsedMs(now);
          return { applicationId, endpointId, maxSlots, occupiedSlots, usedMs };
        }),
    };
  });
  const maxNewSlots = Math.min(maxSlotsPerDecision, MAX_RESERVED_PER_SLOT * slotCount - pool.reservedDeliveryCount);
  const grants = grantSlots({ slotCount, occupiedSlots: totalUse.occupiedSlots, maxNewSlots }, waitingApplications);
  return Array.from(grants, ([{ applicationId, endpointId, occupiedSlots }, count]) => ({
    lane,
    environment,
    applicationId,
    endpointId,
    slotCount: count,
    occupiedSlots,
  }));
}
