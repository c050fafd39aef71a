import { type Environment, environment as environments } from "../../../shared/domain/events/fields.ts";
import type { DueEndpoint, DueEndpoints, Lane } from "./due-endpoints.ts";
import { allot, part } from "./fair-share.ts";
import { SlotUse } from "./slot-use.ts";
import { StartPace } from "./start-pace.ts";

/** Slots that an endpoint may claim. */
export interface Allotment extends DueEndpoint {
  slots: number;
  /** Slots that the endpoint holds already. */
  busy: number;
}

/** An attempt that holds a slot. */
export interface Slot {
  endpoint: DueEndpoint;
  startedAt: number;
}

interface LaneLimits {
  /** Attempts at once in one environment. */
  slots: number;
  /** Attempts at once at one endpoint. */
  perEndpoint: number;
  /** Most slots given in one decision: as many as a single application may hold. */
  atOnce: number;
}

/**
 * Limits of one process. A single application may hold a fifth of the slots of its environment; see
 * {@link allot}. A hanging attempt costs a socket and about 30 KB of memory.
 */
export const LANES: Record<Lane, LaneLimits> = {
  first: { slots: 960, perEndpoint: 4, atOnce: 192 },
  retry: { slots: 320, perEndpoint: 2, atOnce: 64 },
};

/** Slot time expected of an attempt if none of the application ended recently: the usual time limit. Milliseconds. */
const EXPECTED_MS = 10_000;

/** Shortest slot time expected of an attempt. Milliseconds. */
const MIN_EXPECTED_MS = 1;

/** An endpoint that fails may hold one slot. */
const MAX_SLOTS_WHILE_FAILING = 1;

/** Most deliveries held for each slot: one attempt under way, and one outcome that is not written yet. */
const MAX_HELD_PER_SLOT = 2;

/** Most deliveries that a process holds. */
export const MAX_HELD_DELIVERIES =
  environments.options.length * MAX_HELD_PER_SLOT * (LANES.first.slots + LANES.retry.slots);

/** Slot use of an application, and the pace of its starts. */
interface PacedUse {
  use: SlotUse;
  pace: StartPace;
}

/** Slots of one lane in one environment, with their use by applications and endpoints. */
interface Pool {
  lane: Lane;
  environment: Environment;
  all: SlotUse;
  /** Deliveries under way, or with an outcome that is not written yet. */
  held: number;
  applications: Map<string, PacedUse>;
  endpoints: Map<string, SlotUse>;
}

/** Slots of this process for attempts. Each lane of each environment has its own. */
export interface Slots {
  /** Decides which endpoints may claim deliveries now, and how many. */
  allot(due: DueEndpoints): Allotment[];
  /** Takes a slot for a claimed delivery. */
  take(endpoint: DueEndpoint): Slot;
  /** Frees the slot of an attempt that ended; its delivery is still held. */
  free(slot: Slot): void;
  /** Releases a delivery whose slot is free. */
  letGo(slot: Slot): void;
  /** Forgets applications and endpoints that hold no slot and used none recently. */
  forget(): void;
}

/** @param clock milliseconds; only differences matter */
export function createSlots(clock: () => number): Slots {
  const pools = (["first", "retry"] as const).flatMap((lane) =>
    environments.options.map((environment) => createPool(lane, environment)),
  );
  const poolOf = ({ lane, environment }: DueEndpoint): Pool => {
    const pool = pools.find((one) => one.lane === lane && one.environment === environment);
    if (!pool) throw new Error(`There is no pool of slots for ${lane} attempts in ${environment}.`);
    return pool;
  };
  return {
    allot: (due) => pools.flatMap((pool) => allotPool(pool, due, clock())),
    take(endpoint) {
      const startedAt = clock();
      const pool = poolOf(endpoint);
      pool.held += 1;
      const { use, pace } = applicationOf(pool, endpoint);
      pace.start(startedAt, spacingOf(pool, use, startedAt));
      for (const one of usesOf(pool, endpoint)) one.start(startedAt);
      return { endpoint, startedAt };
    },
    free({ endpoint, startedAt }) {
      const now = clock();
      for (const use of usesOf(poolOf(endpoint), endpoint)) use.end(startedAt, now);
    },
    letGo({ endpoint }) {
      poolOf(endpoint).held -= 1;
    },
    forget() {
      const now = clock();
      for (const { applications, endpoints } of pools) {
        for (const [id, { use }] of applications) if (use.isForgotten(now)) applications.delete(id);
        for (const [id, use] of endpoints) if (use.isForgotten(now)) endpoints.delete(id);
      }
    },
  };
}

function createPool(lane: Lane, environment: Environment): Pool {
  return { lane, environment, all: new SlotUse(), held: 0, applications: new Map(), endpoints: new Map() };
}

function applicationOf({ applications }: Pool, { applicationId }: DueEndpoint): PacedUse {
  const known = applications.get(applicationId) ?? { use: new SlotUse(), pace: new StartPace() };
  applications.set(applicationId, known);
  return known;
}

function usesOf(pool: Pool, endpoint: DueEndpoint): SlotUse[] {
  const use = pool.endpoints.get(endpoint.endpointId) ?? new SlotUse();
  pool.endpoints.set(endpoint.endpointId, use);
  return [pool.all, applicationOf(pool, endpoint).use, use];
}

/**
 * Returns the time between two starts at which an application uses exactly its share of the slots, if attempts take as long
 * as recent ones. So slow attempts that started together do not keep ending and starting together.
 */
function spacingOf(pool: Pool, use: SlotUse | undefined, now: number): number {
  const expected = use?.expectedMs(now, EXPECTED_MS) ?? EXPECTED_MS;
  return Math.max(MIN_EXPECTED_MS, expected) / part(LANES[pool.lane].slots - pool.all.busy);
}

function allotPool(pool: Pool, due: DueEndpoints, now: number): Allotment[] {
  const { lane, environment } = pool;
  const { slots, perEndpoint, atOnce } = LANES[lane];
  const entries = due.of(lane, environment);
  if (entries.size === 0) return [];
  const waiting = [...entries].map(([applicationId, endpoints]) => {
    const { use, pace } = pool.applications.get(applicationId) ?? {};
    return {
      busy: use?.busy ?? 0,
      usedMs: use?.usedMs(now) ?? 0,
      atOnce: (pace ?? new StartPace()).possible(now, spacingOf(pool, use, now)),
      endpoints: () =>
        Array.from(endpoints.values(), ({ endpointId, failing }) => {
          const used = pool.endpoints.get(endpointId);
          const most = failing ? MAX_SLOTS_WHILE_FAILING : perEndpoint;
          return { applicationId, endpointId, most, busy: used?.busy ?? 0, usedMs: used?.usedMs(now) ?? 0 };
        }),
    };
  });
  const atMost = Math.min(atOnce, MAX_HELD_PER_SLOT * slots - pool.held);
  return Array.from(
    allot({ slots, busy: pool.all.busy, atMost }, waiting),
    ([{ applicationId, endpointId, busy }, count]) => ({
      ...{ lane, environment, applicationId, endpointId },
      ...{ slots: count, busy },
    }),
  );
}
