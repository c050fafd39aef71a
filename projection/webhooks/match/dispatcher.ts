import type { NatsConnection } from "nats";
import type pg from "pg";
import { BEFORE_FIRST_EVENT } from "../../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { onAbort } from "../../../shared/runtime/abort.ts";
import { createNotifier, pause } from "../../../shared/runtime/backoff.ts";
import { isStatementTimeout } from "../../../shared/runtime/failures.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { type Loop, runWork } from "../../../shared/runtime/work.ts";
import { setEventAside } from "../../checkpoints/late-events.ts";
import { takeOverCheckpoint } from "../../checkpoints/webhook-checkpoints.ts";
import type { EventStream } from "../../relay/event-stream.ts";
import { MESSAGE_HEADERS } from "../../relay/publish.ts";
import type { DueEndpoint } from "../schedule/schedule.ts";
import { addDeliveries, MAX_BATCH_SIZE } from "./add-deliveries.ts";
import { arrange } from "./ordering.ts";

interface DispatcherOptions {
  pool: pg.Pool;
  logger: Logger;
  arrivals: Arrivals;
  onDue(endpoints: readonly DueEndpoint[]): void;
  onReplay(): void;
  /** Called with the position up to which all public events have deliveries. */
  onPosition(position: bigint): void;
  /** Milliseconds since 1970. */
  clock(): number;
}

/** Pause after the dispatcher was woken but found no event, so that forged messages cannot keep it busy. */
const FALSE_ALARM_PAUSE_MS = 20;

/** Placeholders for the events of a batch. Only their number is used: the statement itself chooses the events. */
const NEXT_EVENTS = Array.from({ length: MAX_BATCH_SIZE }, (_, index) => index);

/**
 * Turns public events into deliveries until the signal aborts. Only one process dispatches at a time. It handles the
 * events in the order of the log. If the database refuses the deliveries of an event, or they take too long, the event
 * becomes a late event and is tried again later.
 */
export function runDispatcher(options: DispatcherOptions, loop: Loop): Promise<void> {
  const { pool, arrivals, clock } = options;
  const { signal } = loop;
  let position: bigint | undefined;
  let hasMoved = true;
  let hasMore = true;
  return runWork<number>(
    {
      async take() {
        if (!hasMore && !hasMoved) await pause(FALSE_ALARM_PAUSE_MS, signal);
        if (!hasMore) await arrivals.sleep(signal);
        if (signal.aborted) return undefined;
        position ??= (await takeOverCheckpoint(pool, "deliveries")).position;
        return NEXT_EVENTS;
      },
      async handle({ length }) {
        if (position === undefined) return;
        const added = await addDeliveries(pool, position, length, clock());
        hasMore = added.hasMore || added.isLost;
        if (added.isLost || added.position === null) {
          // Another process has moved the checkpoint, so it is read again.
          position = undefined;
          return;
        }
        hasMoved = added.position > position;
        position = added.position;
        arrivals.setProcessed(position);
        options.onPosition(position);
        options.onDue(added.dueEndpoints);
        if (added.hasReplays) options.onReplay();
        // If this statement fails, the repair arranges the deliveries a moment later.
        options.onDue(await arrange(pool, added.heldGroups, clock()).catch(() => []));
      },
      async setAside(_, error) {
        if (position !== undefined) position = await setFirstEventAside(options, position, error);
      },
      probe: () => pool.query("UPDATE webhooks.checkpoint SET position = position WHERE name = 'deliveries'"),
    },
    loop,
  );
}

/** Makes the next event a late event, so that later events do not wait. @returns new position of the checkpoint */
async function setFirstEventAside({ pool, logger }: DispatcherOptions, after: bigint, error: unknown): Promise<bigint> {
  const { rows } = await pool.query<{ eventId: string; position: bigint; isLate: boolean }>(
    `SELECT event_id AS "eventId", position, is_late AS "isLate"
       FROM ((SELECT event_id, l.position, true AS is_late
                FROM webhooks.late_event l JOIN ${READ_MODEL_SCHEMA}.public_event USING (event_id)
               WHERE needs_deliveries AND next_try_at <= now() AND l.position <= $1 ORDER BY l.position LIMIT 1)
             UNION ALL
             (SELECT event_id, position, false FROM ${READ_MODEL_SCHEMA}.public_event
               WHERE type IS NOT NULL AND position > $1 ORDER BY position LIMIT 1)) e
      ORDER BY is_late DESC LIMIT 1`,
    [after],
  );
  const [event] = rows;
  if (!event) throw error;
  const { eventId, position, isLate } = event;
  logger.error({ error, eventId }, "The deliveries of an event cannot be stored. They are tried again in ten minutes.");
  const cause = isStatementTimeout(error)
    ? "The event's deliveries take longer than the time limit of a statement."
    : "Postgres refuses a value of the event's deliveries.";
  await setEventAside(pool, event, "deliveries", cause);
  if (isLate) return after;
  await pool.query(
    "UPDATE webhooks.checkpoint SET position = $2, event_id = $3 WHERE name = 'deliveries' AND position = $1",
    [after, position, eventId],
  );
  return position;
}

/** Time for which the dispatcher waits for a message after the read models have moved. */
const MESSAGE_TIMEOUT_MS = 100;

const IDLE_INTERVAL_MS = 1_000;

/**
 * Wakes the dispatcher when a message for a public event arrives. Also wakes it if no message arrives in time after the
 * read models have moved, because the message may be lost, or NATS unavailable. The dispatcher reads the events only
 * from the read models, so a lost, repeated or forged message changes nothing.
 */
export class Arrivals {
  readonly #notifier = createNotifier();
  /** Position up to which the dispatcher has processed the events. */
  #processedPosition = BEFORE_FIRST_EVENT;
  #readPosition = BEFORE_FIRST_EVENT;
  #isFollowing = false;
  #timer: NodeJS.Timeout | undefined;

  setProcessed(position: bigint): void {
    this.#processedPosition = position;
  }

  /** @param position position of the read models; undefined if changes are not reported */
  onPosition(position: bigint | undefined): void {
    if (position === undefined || position <= this.#processedPosition) return;
    this.#readPosition = position;
    this.#timer ??= setTimeout(
      () => {
        this.#timer = undefined;
        if (this.#readPosition > this.#processedPosition) this.#notifier.wake();
      },
      this.#isFollowing ? MESSAGE_TIMEOUT_MS : 0,
    );
  }

  /**
   * Receives messages until the signal aborts. Subscribes to the subjects and not to the JetStream stream, because the
   * dispatcher does not depend on messages. Therefore they need not be stored, confirmed or sent again.
   *
   * @param signal must abort when the connection ends
   * @throws {NatsError} if the user may not subscribe
   */
  async follow(connection: NatsConnection, stream: EventStream, signal: AbortSignal): Promise<void> {
    const messages = connection.subscribe(`${stream.subjectPrefix}.>`);
    const removeListener = onAbort(signal, () => messages.unsubscribe());
    this.#isFollowing = true;
    try {
      for await (const { headers } of messages) {
        const position = headers?.get(MESSAGE_HEADERS.position) ?? "";
        if (/^\d{1,19}$/.test(position) && BigInt(position) > this.#processedPosition) this.#notifier.wake();
      }
    } finally {
      this.#isFollowing = false;
      removeListener();
    }
  }

  sleep(signal: AbortSignal): Promise<void> {
    return this.#notifier.sleep(IDLE_INTERVAL_MS, signal);
  }
}
