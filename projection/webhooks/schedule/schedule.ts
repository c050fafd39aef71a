import type { Environment } from "../../../shared/domain/events/fields.ts";

export interface DueEndpoint {
  environment: Environment;
  applicationId: string;
  endpointId: string;
}

/** Number of deliveries to claim for an endpoint. */
export interface Grant extends DueEndpoint {
  count: number;
  inProgress: number;
}

/** Maximum number of attempts in progress. A hanging attempt costs a socket and about 30 KB of memory. */
const MAX_ATTEMPTS = 960;

/** Maximum number of claimed deliveries: attempts in progress, and attempts whose outcome is not yet recorded. */
export const MAX_CLAIMED = 2 * MAX_ATTEMPTS;

const MAX_GRANTED = 192;

/**
 * Shares of the capacity: an application may use a quarter of the free capacity, and an endpoint half of what its
 * application may still use. So endpoints that hang leave capacity for other endpoints of their application.
 */
const APPLICATION_SHARE = 1 / 4;
const ENDPOINT_SHARE = 1 / 2;

/**
 * Limits for concurrent attempts at one endpoint. A quick success can raise the current limit by one. Any other attempt
 * halves it. A failing endpoint gets one attempt at a time.
 */
const MIN_PER_ENDPOINT = 4;
const MAX_PER_ENDPOINT = 64;

/** Maximum duration of an attempt that raises the limit of its endpoint. */
const MAX_QUICK_ATTEMPT_MS = 1_000;

interface EndpointState extends DueEndpoint {
  isDue: boolean;
  /** True if the endpoint became due after the current claim began. */
  isNew: boolean;
  isFailing: boolean;
  /** Time before which the rate limit permits no attempt, in milliseconds of the clock. */
  notBefore: number;
  inProgress: number;
  maxAttempts: number;
}

/** The endpoints of an application. The endpoint that had a turn longest ago comes first. */
interface ApplicationState {
  inProgress: number;
  endpoints: Map<string, EndpointState>;
}

/**
 * Decides which deliveries a process attempts next, in one environment. It knows the attempts in progress and the
 * endpoints with due deliveries, so a claim need not search for them. An outdated entry only causes a claim that finds
 * no delivery.
 *
 * Applications take turns, and so do the endpoints of an application. An application may have a quarter as many
 * attempts in progress as there is free capacity (dynamic thresholds, Choudhury and Hahne). So one application uses at
 * most a fifth of the capacity, and others always find free capacity.
 */
export class Schedule {
  /** The application that had a turn longest ago comes first. */
  readonly #applications = new Map<string, ApplicationState>();
  readonly #clock: () => number;
  #inProgress = 0;
  #claimedCount = 0;

  /** @param clock returns the milliseconds since any fixed point in time */
  constructor(clock: () => number) {
    this.#clock = clock;
  }

  add(endpoint: DueEndpoint): void {
    Object.assign(this.#find(endpoint), { isDue: true, isNew: true });
  }

  get hasDue(): boolean {
    return this.#listEndpoints().some(({ isDue }) => isDue);
  }

  listDueIds(): string[] {
    return this.#listEndpoints().flatMap(({ isDue, endpointId }) => (isDue ? [endpointId] : []));
  }

  /** Decides how many deliveries of each endpoint to claim now. */
  grant(): Grant[] {
    const counts = new Map<EndpointState, number>();
    let remaining = Math.min(MAX_GRANTED, MAX_ATTEMPTS - this.#inProgress, MAX_CLAIMED - this.#claimedCount);
    let free = MAX_ATTEMPTS - this.#inProgress;
    const used = new Map([...this.#applications].map(([id, { inProgress }]) => [id, inProgress]));
    let isGranting = true;
    while (isGranting) {
      isGranting = false;
      for (const [applicationId, application] of [...this.#applications]) {
        const inUse = used.get(applicationId) ?? 0;
        const limit = toShare(free, APPLICATION_SHARE);
        const endpoint =
          remaining > 0 && inUse < limit ? this.#takeTurn(application, counts, limit - inUse) : undefined;
        if (!endpoint) continue;
        counts.set(endpoint, (counts.get(endpoint) ?? 0) + 1);
        used.set(applicationId, inUse + 1);
        this.#applications.delete(applicationId);
        this.#applications.set(applicationId, application);
        free -= 1;
        remaining -= 1;
        isGranting = true;
      }
    }
    return Array.from(counts, ([endpoint, count]) => {
      const { environment, applicationId, endpointId, inProgress } = endpoint;
      endpoint.isNew = false;
      return { environment, applicationId, endpointId, count, inProgress };
    });
  }

  /**
   * Chooses the endpoint that gets the application's next attempt, and moves it behind the other endpoints.
   *
   * @param available capacity that the application may still use
   * @returns undefined if no endpoint may get another attempt
   */
  #takeTurn(
    { endpoints }: ApplicationState,
    counts: ReadonlyMap<EndpointState, number>,
    available: number,
  ): EndpointState | undefined {
    const now = this.#clock();
    for (const endpoint of endpoints.values()) {
      const { isDue, isFailing, notBefore, inProgress, maxAttempts, endpointId } = endpoint;
      if (!isDue || notBefore > now) continue;
      const inUse = inProgress + (counts.get(endpoint) ?? 0);
      const limit = Math.min(isFailing ? 1 : maxAttempts, toShare(available, ENDPOINT_SHARE));
      if (inUse >= limit) continue;
      endpoints.delete(endpointId);
      endpoints.set(endpointId, endpoint);
      return endpoint;
    }
    return undefined;
  }

  /**
   * Records the result of a claim.
   *
   * @param state.hasMore true if more deliveries may be due
   * @param state.pauseMs time until the rate limit permits the next attempt
   */
  recordClaim(endpoint: DueEndpoint, state: { isFailing: boolean; hasMore: boolean; pauseMs: number }): void {
    const found = this.#find(endpoint);
    found.isFailing = state.isFailing;
    found.notBefore = this.#clock() + state.pauseMs;
    if (!state.hasMore && !found.isNew) found.isDue = false;
  }

  /**
   * Counts a new attempt.
   *
   * @returns function to call when the attempt ends; it returns a function to call when the outcome is recorded
   */
  start(endpoint: DueEndpoint): (isSuccess: boolean) => () => void {
    const startedAt = this.#clock();
    const application = this.#findApplication(endpoint.applicationId);
    const state = this.#find(endpoint);
    this.#inProgress += 1;
    this.#claimedCount += 1;
    application.inProgress += 1;
    state.inProgress += 1;
    return (isSuccess) => {
      const isQuick = isSuccess && this.#clock() - startedAt <= MAX_QUICK_ATTEMPT_MS;
      // An endpoint that uses all it may gets more after a quick success. A failed or slow attempt halves the number.
      if (!isQuick) state.maxAttempts = Math.max(MIN_PER_ENDPOINT, Math.floor(state.maxAttempts / 2));
      else if (state.inProgress >= state.maxAttempts)
        state.maxAttempts = Math.min(MAX_PER_ENDPOINT, state.maxAttempts + 1);
      this.#inProgress -= 1;
      application.inProgress -= 1;
      state.inProgress -= 1;
      return () => {
        this.#claimedCount -= 1;
      };
    };
  }

  /** Forgets endpoints that have neither due deliveries nor attempts in progress. */
  removeUnused(): void {
    for (const [applicationId, { endpoints }] of this.#applications) {
      for (const [endpointId, { isDue, inProgress }] of endpoints)
        if (!isDue && inProgress === 0) endpoints.delete(endpointId);
      if (endpoints.size === 0) this.#applications.delete(applicationId);
    }
  }

  #listEndpoints(): EndpointState[] {
    return [...this.#applications.values()].flatMap(({ endpoints }) => [...endpoints.values()]);
  }

  #findApplication(applicationId: string): ApplicationState {
    const application = this.#applications.get(applicationId) ?? { inProgress: 0, endpoints: new Map() };
    this.#applications.set(applicationId, application);
    return application;
  }

  #find({ environment, applicationId, endpointId }: DueEndpoint): EndpointState {
    const { endpoints } = this.#findApplication(applicationId);
    const endpoint = endpoints.get(endpointId) ?? {
      ...{ environment, applicationId, endpointId, isDue: false, isNew: false, isFailing: false, notBefore: 0 },
      ...{ inProgress: 0, maxAttempts: MIN_PER_ENDPOINT },
    };
    endpoints.set(endpointId, endpoint);
    return endpoint;
  }
}

/** Returns a share of a capacity, but at least one. */
function toShare(capacity: number, share: number): number {
  return Math.max(1, Math.floor(capacity * share));
}
