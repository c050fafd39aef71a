/** An endpoint with due deliveries. */
export interface WaitingEndpoint {
  /** Number of slots that the endpoint occupies. */
  busy: number;
  /** Maximum number of slots that the endpoint may occupy. */
  most: number;
  /** Slot time that the endpoint used recently. Milliseconds. */
  usedMs: number;
}

/** An application that has endpoints with due deliveries. */
export interface WaitingApplication<Endpoint extends WaitingEndpoint> {
  /** Number of slots that all endpoints of the application occupy. */
  busy: number;
  /** Slot time that all endpoints of the application used recently. Milliseconds. */
  usedMs: number;
  /** Maximum number of slots that one decision may grant to the application. */
  atOnce: number;
  /** Lists the endpoints with due deliveries. Called only if the application may get a slot. */
  endpoints(): readonly Endpoint[];
}

/** The slots that applications share, in one lane and environment. */
export interface SlotPool {
  /** Number of all slots. */
  slots: number;
  /** Number of occupied slots. */
  busy: number;
  /** Maximum number of slots that one decision may grant. */
  atMost: number;
}

/** Largest share of the free slots for one application, and of an application's share for one endpoint. */
const MAX_SHARE = 1 / 4;

/**
 * Decides how many slots each endpoint with due deliveries gets now.
 *
 * The limits are dynamic thresholds, as for shared buffers (Choudhury and Hahne). An application may occupy at most a
 * quarter of the free slots, but always one. So a single application can occupy a fifth of all slots. Each further
 * application leaves fewer slots for the others, but always some. Endpoints share the slots of their application in the
 * same way.
 *
 * Each round grants one slot to each application. The application that used the least slot time recently comes first, and
 * its slot goes to the endpoint that used the least. Slot time counts equally for successful and failed attempts.
 *
 * @returns number of granted slots by endpoint
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

/**
 * Creates a function that grants one slot to an endpoint of the application. The function returns the endpoint, or
 * undefined if no endpoint may get a slot.
 */
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
      // Limits only shrink during a decision, so an endpoint at its limit is not considered again.
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

/** Returns the maximum number of slots for one application or endpoint: a quarter of the given slots, at least one. */
export function part(slots: number): number {
  return Math.max(1, Math.floor(slots * MAX_SHARE));
}
