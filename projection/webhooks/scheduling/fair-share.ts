/** An endpoint with due deliveries. */
export interface WaitingEndpoint {
  /** Slots that it holds. */
  busy: number;
  /** Most slots that it may hold. */
  most: number;
  /** Slot time that it used recently. Milliseconds. */
  usedMs: number;
}

/** An application with endpoints that wait. */
export interface WaitingApplication<Endpoint extends WaitingEndpoint> {
  /** Slots that all its endpoints hold. */
  busy: number;
  /** Slot time that all its endpoints used recently. Milliseconds. */
  usedMs: number;
  /** Most slots that it may take in this decision. */
  atOnce: number;
  /** Lists its endpoints that wait; called only if the application may take a slot. */
  endpoints(): readonly Endpoint[];
}

/** Slots that applications share. */
export interface SlotPool {
  /** All slots. */
  slots: number;
  /** Those that are held. */
  busy: number;
  /** Most slots to give away now. */
  atMost: number;
}

/** Largest share of the free slots for one application, and of an application's share for one endpoint. */
const MAX_SHARE = 1 / 4;

/**
 * Decides how many slots each waiting endpoint gets now.
 *
 * The limits are dynamic thresholds, as for shared buffers (Choudhury and Hahne). An application may hold at most a quarter
 * of the free slots, and at least one. So a single application can hold a fifth of all slots. Each further application
 * leaves fewer slots for the others, but always some. Endpoints share the slots of their application in the same way.
 *
 * Slots are given in turns of one: first to the application that used the least slot time, and within it to the
 * endpoint that used the least. Slot time counts alike for attempts that succeed and attempts that fail.
 *
 * @returns slots by endpoint
 */
export function allot<Endpoint extends WaitingEndpoint>(
  { slots, busy, atMost }: SlotPool,
  applications: readonly WaitingApplication<Endpoint>[],
): Map<Endpoint, number> {
  const given = new Map<Endpoint, number>();
  let free = slots - busy;
  let left = Math.min(atMost, free);
  const mayTake = applications.filter(({ busy: held, atOnce }) => held < part(free) && atOnce > 0);
  let turns = mayTake.sort((a, b) => a.usedMs - b.usedMs || a.busy - b.busy).map(turnOf);
  while (left > 0 && turns.length > 0) {
    const next: typeof turns = [];
    for (const turn of turns) {
      const endpoint = left > 0 ? turn(free) : undefined;
      if (!endpoint) continue;
      given.set(endpoint, (given.get(endpoint) ?? 0) + 1);
      free -= 1;
      left -= 1;
      next.push(turn);
    }
    turns = next;
  }
  return given;
}

/** Makes a function that takes one slot for an application and returns the endpoint, or undefined if none may take one. */
function turnOf<Endpoint extends WaitingEndpoint>(
  application: WaitingApplication<Endpoint>,
): (free: number) => Endpoint | undefined {
  let { busy, atOnce } = application;
  let queue: { endpoint: Endpoint; busy: number }[] | undefined;
  return (free) => {
    const share = part(free);
    if (busy >= share || atOnce === 0) return undefined;
    queue ??= application
      .endpoints()
      .toSorted((a, b) => a.usedMs - b.usedMs)
      .map((endpoint) => ({ endpoint, busy: endpoint.busy }));
    for (let first = queue.shift(); first; first = queue.shift()) {
      // The limits only become smaller during one decision: an endpoint at its limit is out.
      if (first.busy >= Math.min(first.endpoint.most, part(share - busy))) continue;
      busy += 1;
      atOnce -= 1;
      first.busy += 1;
      queue.push(first);
      return first.endpoint;
    }
    return undefined;
  };
}

/** Returns the number of slots that one application or endpoint may hold. It is at least one. */
export function part(slots: number): number {
  return Math.max(1, Math.floor(slots * MAX_SHARE));
}
