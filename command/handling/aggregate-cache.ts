import { serialize } from "node:v8";
import { END, type EventStoreDBClient } from "@eventstore/db-client";
import { LRUCache } from "lru-cache";
import type { Aggregate } from "../../shared/domain/aggregate.ts";
import { DomainError } from "../../shared/domain/domain-error.ts";
import { type Category, toStreamName } from "../../shared/domain/events/category.ts";
import { clinicStreams, resourceStreams } from "../../shared/domain/events/clinic.ts";
import { animalConsentStreams } from "../../shared/domain/events/consent.ts";
import { installationStreams, partnerApplicationStreams } from "../../shared/domain/events/partner.ts";
import { animalStreams, customerStreams } from "../../shared/domain/events/people.ts";
import { reachEventStore } from "../../shared/eventstore/connect.ts";
import type { EventLog } from "../../shared/eventstore/log.ts";
import { createCategoryFilter, subscribeToStoredEvents } from "../../shared/eventstore/subscription.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { repeat } from "../../shared/runtime/work.ts";
import { type LoadedAggregate, loadAggregate } from "./handle.ts";

export type LoadAggregate = <C extends Category, State>(
  aggregate: Aggregate<C, State>,
  id: string,
) => Promise<LoadedAggregate<State>>;

/**
 * Runs a decision that reads aggregates but does not change them. The aggregates may come from a cache, and are then
 * usually less than a second old. If the decision refuses with cached aggregates, it runs again with aggregates from
 * the log, so that the refusal is not outdated.
 *
 * @param decide to refuse, throws a {DomainError}, or an {ApiError} with a status below 500; a refused decision must
 *   have no effect
 * @param maxRefusalAgeMs a refusal is final if its cached aggregates are at most this old; milliseconds; default: 0
 */
export type Decide = <Result>(
  decide: (load: LoadAggregate) => Promise<Result>,
  maxRefusalAgeMs?: number,
) => Promise<Result>;

/** Categories of the aggregates that almost every request of a partner needs, and that rarely change. */
const CACHED_CATEGORIES = [
  partnerApplicationStreams,
  installationStreams,
  clinicStreams,
  resourceStreams,
  animalStreams,
  animalConsentStreams,
  customerStreams,
];

const CACHED_CATEGORY_NAMES: ReadonlySet<string> = new Set(CACHED_CATEGORIES.map(({ name }) => name));

/** Maximum size of all cached aggregates in serialized form. An aggregate usually takes 300 to 2,000 bytes. */
const MAX_CACHE_BYTES = 16 * 1024 * 1024;

const LOADING_BYTES = 500;

/** The cache is not used if the log has not responded for this time. */
const MAX_AGE_MS = 1_000;

/** Interval between two checks that the log responds. */
const CHECK_INTERVAL_MS = 400;

const RESTART_PAUSE_MS = 100;

interface CachedAggregate {
  loading: Promise<LoadedAggregate<unknown>>;
  /** Time at which the read of the log began, as a value of `performance.now()`. */
  readAt: number;
}

/**
 * Keeps recently used aggregates in memory. A subscription removes an aggregate when an event is appended to its
 * stream. If the subscription has ended, or the log has not responded for a second, decisions read the log instead. A
 * cached aggregate can still be outdated: a server may respond to reads but delay the events of a subscription.
 */
export class AggregateCache {
  readonly #log: EventLog;
  readonly #aggregates = new LRUCache<string, CachedAggregate>({ maxSize: MAX_CACHE_BYTES });
  readonly #ending = new AbortController();
  readonly #work: Promise<unknown>;
  #isLive = false;
  /** Start of the last check to which the log responded, as a value of `performance.now()`. */
  #respondedAt = Number.NEGATIVE_INFINITY;

  constructor(client: EventStoreDBClient, log: EventLog, logger: Logger) {
    this.#log = log;
    this.#work = Promise.all([this.#follow(client, logger), this.#check(client)]);
  }

  /** Runs a decision with cached aggregates; see {@link Decide}. */
  readonly decide: Decide = async (decide, maxRefusalAgeMs = 0) => {
    const oldestReadAt = performance.now() - maxRefusalAgeMs;
    /** Aggregates that were read recently enough to make a refusal final, by stream. */
    const recentAggregates = new Map<string, CachedAggregate>();
    let hasUsedOlder = false;
    const loadFrom =
      (findCached: (stream: string) => CachedAggregate | undefined): LoadAggregate =>
      <C extends Category, State>(aggregate: Aggregate<C, State>, id: string) => {
        const stream = toStreamName(aggregate.category, id);
        const found = recentAggregates.get(stream) ?? findCached(stream) ?? this.#read(aggregate, id);
        if (found.readAt >= oldestReadAt) recentAggregates.set(stream, found);
        else hasUsedOlder = true;
        return found.loading as Promise<LoadedAggregate<State>>;
      };
    try {
      return await decide(loadFrom((stream) => (this.#isCurrent() ? this.#aggregates.get(stream) : undefined)));
    } catch (error) {
      if (!hasUsedOlder || !isRefusal(error)) throw error;
      return decide(loadFrom(() => undefined));
    }
  };

  /** Ends the subscription. Later decisions read the log. */
  async close(): Promise<void> {
    this.#ending.abort();
    await this.#work;
  }

  #isCurrent(): boolean {
    return this.#isLive && performance.now() - this.#respondedAt < MAX_AGE_MS;
  }

  /** Reads an aggregate. Keeps it if it exists and its category is cached. */
  #read<C extends Category, State>(aggregate: Aggregate<C, State>, id: string): CachedAggregate {
    const readAt = performance.now();
    const readAggregate = { loading: loadAggregate(this.#log, aggregate, id), readAt };
    if (this.#isLive && CACHED_CATEGORY_NAMES.has(aggregate.category.name)) {
      void this.#keep(toStreamName(aggregate.category, id), readAggregate);
    }
    return readAggregate;
  }

  async #keep(stream: string, readAggregate: CachedAggregate): Promise<void> {
    this.#aggregates.set(stream, readAggregate, { size: LOADING_BYTES });
    const state = await readAggregate.loading.then(
      (loadedAggregate) => loadedAggregate.state,
      () => undefined,
    );
    // An event that was appended meanwhile has removed the aggregate.
    if (this.#aggregates.peek(stream) !== readAggregate) return;
    if (state === undefined) this.#aggregates.delete(stream);
    else this.#aggregates.set(stream, readAggregate, { size: serialize(state).length });
  }

  #follow(client: EventStoreDBClient, logger: Logger): Promise<void> {
    const { signal } = this.#ending;
    const follow = async () => {
      const options = { client, after: END, filter: createCategoryFilter(CACHED_CATEGORIES), signal } as const;
      try {
        for await (const item of subscribeToStoredEvents(options)) {
          // Events before the end of the log may have been missed, so nothing that was read earlier is kept.
          if (item.kind === "caughtUp") this.#isLive = true;
          else this.#aggregates.delete(item.event.streamId);
        }
      } finally {
        this.#isLive = false;
        this.#aggregates.clear();
      }
    };
    const loop = { name: "subscription to access data", logger, signal, report: () => undefined };
    return repeat(loop, follow, () => pause(RESTART_PAUSE_MS, signal));
  }

  async #check(client: EventStoreDBClient): Promise<void> {
    const { signal } = this.#ending;
    while (!signal.aborted) {
      const startedAt = performance.now();
      // Without a response, requests do not use the cache. They try to read the log, and report the error.
      await reachEventStore(client, MAX_AGE_MS).then(
        () => (this.#respondedAt = startedAt),
        () => undefined,
      );
      await pause(CHECK_INTERVAL_MS, signal);
    }
  }
}

function isRefusal(error: unknown): boolean {
  // Cached aggregates do not decide whether a place is taken.
  if (error instanceof DomainError) return error.code !== "slot_taken";
  return error instanceof ApiError && error.status < 500;
}
