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
import { LogUnavailable, readWithin, toLogError } from "../../../shared/eventstore/log.ts";
import { onAbort } from "../../../shared/runtime/abort.ts";
import { type ClientEvent, type LogEvent, toLogEvent } from "./audit-event.ts";

/** How far a scan is. */
export interface ScanProgress {
  /** Events that the log has given. */
  read: number;
  /** Of the whole way, from 0 to 1. */
  share: number;
}

export interface ScanOptions {
  client: EventStoreDBClient;
  /** Beginnings of stream names: the server leaves all other streams out; all of them where absent. */
  prefixes: readonly string[] | undefined;
  /** The last position that is read, inclusive. */
  through: bigint;
  /** Ends the scan. */
  signal: AbortSignal;
  onProgress?: ((progress: ScanProgress) => void) | undefined;
}

/** The log answers a single question within this. Milliseconds. */
const ANSWER_TIMEOUT_MS = 4_000;

/** A scan that gets nothing for this long has lost the log. Milliseconds. */
const SILENCE = 10_000;

/** A sign of life comes after this many times 32 events that the filter left out. */
const CHECKPOINT_INTERVAL = 32;

/**
 * Where the log ends just now: what is appended later is not part of a scan up to here.
 *
 * @throws {LogUnavailable}
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
 * Goes through the log once, from its start, event by event, as fast as they are taken and never faster.
 *
 * @throws {LogUnavailable}
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
  const watch = watchdog(() => subscription.destroy(new LogUnavailable("the event log is silent")));
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
      if (position === undefined) throw new Error("the log gave an event without a position");
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
      throw new LogUnavailable("the event log ended the subscription before the scan's end");
  } catch (error) {
    if (!signal.aborted) throw toLogError(error);
  } finally {
    watch.end();
    remove();
    await subscription.unsubscribe().catch(ignoreNeverConnected);
  }
}

type Mark = { mark: "caughtUp" } | { mark: "checkpoint"; position: bigint };
type Given = Mark | { event?: ClientEvent; commitPosition?: bigint };

/** Cancelling a call that was never made fails with the reason why it was not: the loop has thrown that already. */
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

/** Says when the log has been silent for too long, not counting the time that its events are worked on. */
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
