import { type Environment, environment as environments } from "../../../shared/domain/events/fields.ts";
import { createNotifier } from "../../../shared/runtime/backoff.ts";

/** Kind of attempt. First attempts and retries have separate slots, so that they do not delay each other. */
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
  isFailing: boolean;
  /** True if the endpoint has a rate limit, as far as this process knows. */
  isLimited: boolean;
  /** Time before which the rate limit of the endpoint permits no attempt, on the clock of the slots. Milliseconds. */
  notBefore: number;
  /** Version of the list when the endpoint was last added. */
  version: number;
}

/**
 * Endpoints with due deliveries, as far as this process knows, with one entry for each endpoint and lane. Claims use
 * this list, so that a claim need not search all endpoints. The next search adds missing entries. An outdated entry
 * only causes one claim that finds nothing.
 */
export class DueEndpoints {
  readonly #entries = new Map<string, Map<string, Map<string, DueEntry>>>();
  readonly #notifier = createNotifier();
  #version = 0;

  /** Number of calls of `add` so far. */
  get version(): number {
    return this.#version;
  }

  /** Adds endpoints, and wakes the sender. */
  add(endpoints: readonly DueEndpoint[]): void {
    this.#version += 1;
    for (const { lane, environment, applicationId, endpointId } of endpoints) {
      const entriesByApplication = this.listEntries(lane, environment);
      const entries = entriesByApplication.get(applicationId) ?? new Map<string, DueEntry>();
      entriesByApplication.set(applicationId, entries);
      const dueEntry = entries.get(endpointId) ?? { endpointId, isFailing: false, isLimited: false, notBefore: 0 };
      entries.set(endpointId, { ...dueEntry, version: this.#version });
    }
    if (endpoints.length > 0) this.wake();
  }

  /** Records the state of an endpoint that a claim reported. */
  update(endpoint: DueEndpoint, state: Pick<DueEntry, "isFailing" | "isLimited" | "notBefore">): void {
    const dueEntry = this.#find(endpoint);
    if (dueEntry) Object.assign(dueEntry, state);
  }

  /** Removes an endpoint, unless it was added again after the given version. */
  remove(endpoint: DueEndpoint, version: number): void {
    const dueEntry = this.#find(endpoint);
    if (!dueEntry || dueEntry.version > version) return;
    const entriesByApplication = this.listEntries(endpoint.lane, endpoint.environment);
    const entries = entriesByApplication.get(endpoint.applicationId);
    entries?.delete(endpoint.endpointId);
    if (entries?.size === 0) entriesByApplication.delete(endpoint.applicationId);
  }

  /** Returns the entries of a lane and environment, by application id and endpoint id. */
  listEntries(lane: Lane, environment: Environment): Map<string, Map<string, DueEntry>> {
    const key = `${lane} ${environment}`;
    const entriesByApplication = this.#entries.get(key) ?? new Map();
    this.#entries.set(key, entriesByApplication);
    return entriesByApplication;
  }

  /** Returns the ids of all endpoints in a lane. */
  listEndpointIds(lane: Lane): string[] {
    return environments.options.flatMap((environment) =>
      Array.from(this.listEntries(lane, environment).values(), (entries) => [...entries.keys()]).flat(),
    );
  }

  /** Wakes the sender. */
  wake(): void {
    this.#notifier.wake();
  }

  /** Sleeps until `wake` is called, until the time has passed, or until the signal aborts. */
  sleep(milliseconds: number, signal: AbortSignal): Promise<void> {
    return this.#notifier.sleep(milliseconds, signal);
  }

  #find({ lane, environment, applicationId, endpointId }: DueEndpoint): DueEntry | undefined {
    return this.listEntries(lane, environment).get(applicationId)?.get(endpointId);
  }
}
