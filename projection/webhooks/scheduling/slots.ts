import { type Environment, environment as environments } from "../../../shared/domain/events/fields.ts";
import type { DueEndpoint, DueEndpoints, Lane } from "./due-endpoints.ts";
import { allot, part } from "./fair-share.ts";
import { SlotUse } from "./slot-use.ts";
import { StartPace } from "./start-pace.ts";

/** Number of free slots that an endpoint may use for its due deliveries. */
export interface Allotment extends DueEndpoint {
  slots: number;
  /** Number of slots that the endpoint already occupies. */
  busy: number;
}

/** The slot of one attempt. */
export interface Slot {
  endpoint: DueEndpoint;
  startedAt: number;
}

interface LaneLimits {
  /** Maximum number of concurrent attempts in one environment. */
  slots: number;
  /** Maximum number of concurrent attempts at one endpoint. */
  perEndpoint: number;
  /** Maximum number of slots that one decision grants. It equals the number that a single application may occupy. */
  atOnce: number;
}

/**
 * Slot limits of one process. A hanging attempt costs a socket and about 30 KB of memory. For the limits of an application,
 * see {@link allot}.
 */
export const LANES: Record<Lane, LaneLimits> = {
  first: { slots: 960, perEndpoint: 4, atOnce: 192 },
  retry: { slots: 320, perEndpoint: 2, atOnce: 64 },
};

/**
 * Expected slot time of an attempt if no attempt of its application has finished recently. It equals the default time limit
 * of a response. Milliseconds.
 */
const EXPECTED_MS = 10_000;

/** Lower limit for the expected slot time of an attempt. Milliseconds. */
const MIN_EXPECTED_MS = 1;

/** Maximum number of slots of an endpoint whose last attempt failed. */
const MAX_SLOTS_WHILE_FAILING = 1;

/** Maximum number of reserved deliveries per slot: one attempt in progress, and one outcome that is not yet recorded. */
const MAX_HELD_PER_SLOT = 2;

/** Maximum number of deliveries that a process reserves. */
export const MAX_HELD_DELIVERIES =
  environments.options.length * MAX_HELD_PER_SLOT * (LANES.first.slots + LANES.retry.slots);

/** Slot use of an application, and the pace at which its attempts start. */
interface PacedUse {
  use: SlotUse;
  pace: StartPace;
}

/** The slots of one lane in one environment, and their use by applications and endpoints. */
interface Pool {
  lane: Lane;
  environment: Environment;
  all: SlotUse;
  /** Number of claimed deliveries whose outcome is not yet recorded. */
  held: number;
  applications: Map<string, PacedUse>;
  endpoints: Map<string, SlotUse>;
}

/** Slots of this process for attempts. Each lane of each environment has separate slots. */
export interface Slots {
  /** Decides which endpoints may use free slots now, and how many. */
  allot(due: DueEndpoints): Allotment[];
  /** Reserves a claimed delivery, and occupies a slot for its attempt. */
  take(endpoint: DueEndpoint): Slot;
  /** Frees the slot of a finished attempt. The delivery stays reserved until `letGo`. */
  free(slot: Slot): void;
  /** Ends the reservation of a delivery whose slot is free. */
  letGo(slot: Slot): void;
  /** Removes the records of applications and endpoints that occupy no slot and used none recently. */
  forget(): void;
}

/** @param clock returns milliseconds from any fixed start */
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
 * Returns the time between two starts at which an application uses exactly its share of the slots, if its attempts take as
 * long as its recent ones. The spacing keeps slow attempts from always starting and ending together. Milliseconds.
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
