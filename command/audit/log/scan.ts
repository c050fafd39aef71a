import {
  type AllStreamSubscription,
  BACKWARDS,
  END,
  type EventStoreDBClient,
  excludeSystemEvents,
  type Filter,
  START,
  streamNameFilter,
} from "@eventstore/db-client";
import { LogUnavailableError, readWithin, toLogError } from "../../../shared/eventstore/log.ts";
import { onAbort } from "../../../shared/runtime/abort.ts";
import { type EventStoreClientEvent, type LogEvent, toLogEvent } from "./audit-event.ts";

/** Progress of a scan. */
export interface ScanProgress {
  /** Number of events that were read. */
  read: number;
  /** Fraction of the log that was scanned, from 0 to 1. */
  share: number;
}

export interface ScanOptions {
  client: EventStoreDBClient;
  /** Prefixes of stream names. The server omits all other streams. Undefined for all streams. */
  prefixes: readonly string[] | undefined;
  /** Log position at which the scan ends, inclusive. */
  through: bigint;
  /** Ends the scan. */
  signal: AbortSignal;
  onProgress?: ((progress: ScanProgress) => void) | undefined;
}

/** Time limit for a single request to the log. Milliseconds. */
const ANSWER_TIMEOUT_MS = 4_000;

/** Time after which a scan without any item fails. Milliseconds. */
const SILENCE = 10_000;

/** The server reports its progress after this many times 32 filtered events. */
const CHECKPOINT_INTERVAL = 32;

/**
 * Returns the current end of the log.
 *
 * @throws {LogUnavailableError}
 */
export async function logEnd(client: EventStoreDBClient): Promise<bigint> {
  const read = client.readAll({
    direction: BACKWARDS,
    fromPosition: END,
    maxCount: 1,
    deadline: ANSWER_TIMEOUT_MS,
  });
  let end = 0n;
  for await (const { event, commitPosition } of readWithin(ANSWER_TIMEOUT_MS, read))
    end = commitPosition ?? event?.position?.commit ?? end;
  return end;
}

/**
 * Scans the log from its start to a position, as fast as the consumer reads.
 *
 * @throws {LogUnavailableError}
 */
export async function* scan(options: ScanOptions): AsyncGenerator<LogEvent, void> {
  const { client, through, signal, onProgress } = options;
  if (signal.aborted) return;
  const push = (to: AllStreamSubscription, mark: Mark) => to.push(mark);
  const subscription = client.subscribeToAll({
    fromPosition: START,
    filter: filterFor(options.prefixes, (at, position) => {
      push(at, { mark: "checkpoint", position: position.commit });
    }),
  });
  subscription.on("caughtUp", () => push(subscription, { mark: "caughtUp" }));
  const remove = onAbort(signal, () => subscription.destroy());
  const watch = watchdog(() =>
    subscription.destroy(new LogUnavailableError("the event log stopped sending events")),
  );
  const share = (position: bigint) => (through === 0n ? 1 : Number(position) / Number(through));
  let read = 0;
  try {
    for await (const given of subscription as AsyncIterable<Given>) {
      watch.heard();
      if ("mark" in given) {
        if (given.mark === "caughtUp" || given.position > through) return;
        onProgress?.({ read, share: share(given.position) });
        continue;
      }
      const position = given.commitPosition ?? given.event?.position?.commit;
      if (position === undefined) throw new Error("the event log returned an event without a position");
      if (position > through) return;
      if (!given.event) continue;
      read += 1;
      onProgress?.({ read, share: share(position) });
      watch.busy();
      yield toLogEvent(given.event, position);
      watch.heard();
      if (position === through) return;
    }
    if (!signal.aborted)
      throw new LogUnavailableError("the event log ended the subscription before the scan's end");
  } catch (error) {
    if (!signal.aborted) throw toLogError(error);
  } finally {
    watch.end();
    remove();
    await subscription.unsubscribe().catch(ignoreNeverConnected);
  }
}

type Mark = { mark: "caughtUp" } | { mark: "checkpoint"; position: bigint };
type Given = Mark | { event?: EventStoreClientEvent; commitPosition?: bigint };

/**
 * Unsubscribing from a call that never connected fails with the connection error, which the loop has already thrown.
 */
function ignoreNeverConnected(): void {}

function filterFor(
  prefixes: readonly string[] | undefined,
  checkpointReached: NonNullable<Parameters<typeof excludeSystemEvents>[0]>["checkpointReached"],
): Filter {
  const options = {
    checkpointInterval: CHECKPOINT_INTERVAL,
    ...(checkpointReached && { checkpointReached }),
  };
  return prefixes ? streamNameFilter({ prefixes: [...prefixes], ...options }) : excludeSystemEvents(options);
}

/**
 * Calls `silent` if the log sends nothing for too long. Time in which the consumer processes an event is not counted.
 */
function watchdog(silent: () => void): { heard(): void; busy(): void; end(): void } {
  let since: number | undefined = performance.now();
  const timer = setInterval(() => {
    if (since !== undefined && performance.now() - since > SILENCE) silent();
  }, 1_000);
  timer.unref();
  return {
    heard() {
      since = performance.now();
    },
    busy() {
      since = undefined;
    },
    end: () => clearInterval(timer),
  };
}
