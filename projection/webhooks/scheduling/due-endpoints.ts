import { type Environment, environment as environments } from "../../../shared/domain/events/fields.ts";
import { createNotifier } from "../../../shared/runtime/notifier.ts";

/** Kind of an attempt. First attempts and retries have separate slots, so that neither delays the other. */
export type Lane = "first" | "retry";

/** An active endpoint with due deliveries in a lane. */
export interface DueEndpoint {
  lane: Lane;
  environment: Environment;
  applicationId: string;
  endpointId: string;
}

/** Entry of an endpoint in {@link DueEndpoints}. */
export interface DueEntry {
  endpointId: string;
  /** True if the last attempt at the endpoint failed, as far as this process knows. */
  failing: boolean;
  /** Number of the latest call of {@link DueEndpoints.add} that added the endpoint. */
  addedBy: number;
}

/**
 * Endpoints with due deliveries, as far as this process knows, with one entry for each endpoint and lane. Because of this
 * list, a claim need not search all endpoints. The next search adds missing entries. An entry without due deliveries
 * costs one claim that finds nothing.
 */
export interface DueEndpoints {
  /** Adds endpoints, and wakes the sender. @returns the number of this call */
  add(endpoints: readonly DueEndpoint[]): number;
  /** Records whether the last attempt at an endpoint failed. */
  setFailing(endpoint: DueEndpoint, failing: boolean): void;
  /** Removes an endpoint, unless a call of `add` later than the given one added the endpoint again. */
  remove(endpoint: DueEndpoint, addition: number): void;
  /** Returns the number of the latest call of `add`. */
  additions(): number;
  /** Returns the entries of a lane and environment, by application id and endpoint id. */
  of(lane: Lane, environment: Environment): ReadonlyMap<string, ReadonlyMap<string, DueEntry>>;
  /** Returns the ids of all endpoints in a lane. */
  in(lane: Lane): string[];
  /** Wakes the sender. */
  wake(): void;
  /** Sleeps until `wake` is called, until the time has passed, or until the signal aborts. */
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
