import { type Environment, environment as environments } from "../../../shared/domain/events/fields.ts";
import { createNotifier } from "../../../shared/runtime/notifier.ts";

/** First attempts and retries have separate slots, so that neither delays the other. */
export type Lane = "first" | "retry";

/** An endpoint that may be sent to and has deliveries that are due. */
export interface DueEndpoint {
  lane: Lane;
  environment: Environment;
  applicationId: string;
  endpointId: string;
}

/** An endpoint's entry. */
export interface DueEntry {
  endpointId: string;
  /** True if its last attempt failed, as far as this process knows. */
  failing: boolean;
  /** Number of the latest {@link DueEndpoints.add} that named it. */
  addedBy: number;
}

/**
 * Endpoints with deliveries that are due, as far as this process knows: one entry for each endpoint and lane. It saves
 * each claim the search through all endpoints. A missing entry is found by the next search; a superfluous one costs a
 * claim that finds nothing.
 */
export interface DueEndpoints {
  /** Adds endpoints, and wakes the sender. @returns the number of this addition */
  add(endpoints: readonly DueEndpoint[]): number;
  /** Sets whether an endpoint fails. */
  setFailing(endpoint: DueEndpoint, failing: boolean): void;
  /** Removes an endpoint, unless an addition later than the given one named it again. */
  remove(endpoint: DueEndpoint, addition: number): void;
  /** Number of the latest addition. */
  additions(): number;
  /** Entries by application. */
  of(lane: Lane, environment: Environment): ReadonlyMap<string, ReadonlyMap<string, DueEntry>>;
  /** Ids of the endpoints in a lane. */
  in(lane: Lane): string[];
  /** Wakes the sender. */
  wake(): void;
  /** Sleeps until woken, for at most so many milliseconds, or until the signal aborts. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void>;
}

type Entries = Map<string, Map<string, DueEntry>>;

export function createDueEndpoints(): DueEndpoints {
  const pools = new Map<string, Entries>();
  const waker = createNotifier();
  let additions = 0;
  const entriesOf = (lane: Lane, environment: Environment): Entries => {
    const key = `${lane} ${environment}`;
    const entries = pools.get(key) ?? new Map();
    pools.set(key, entries);
    return entries;
  };
  const find = ({ lane, environment, applicationId, endpointId }: DueEndpoint) =>
    entriesOf(lane, environment).get(applicationId)?.get(endpointId);
  return {
    add(endpoints) {
      additions += 1;
      for (const endpoint of endpoints) {
        const { lane, environment, applicationId, endpointId } = endpoint;
        const applications = entriesOf(lane, environment);
        const entries = applications.get(applicationId) ?? new Map<string, DueEntry>();
        applications.set(applicationId, entries);
        const failing = entries.get(endpointId)?.failing ?? false;
        entries.set(endpointId, { endpointId, failing, addedBy: additions });
      }
      if (endpoints.length > 0) waker.wake();
      return additions;
    },
    setFailing(endpoint, failing) {
      const entry = find(endpoint);
      if (entry) entry.failing = failing;
    },
    remove(endpoint, addition) {
      const entry = find(endpoint);
      if (!entry || entry.addedBy > addition) return;
      const applications = entriesOf(endpoint.lane, endpoint.environment);
      const entries = applications.get(endpoint.applicationId);
      entries?.delete(endpoint.endpointId);
      if (entries?.size === 0) applications.delete(endpoint.applicationId);
    },
    additions: () => additions,
    of: entriesOf,
    in: (lane) =>
      environments.options.flatMap((environment) =>
        Array.from(entriesOf(lane, environment).values(), (entries) => [...entries.keys()]).flat(),
      ),
    wake: waker.wake,
    sleep: waker.sleep,
  };
}
