import {
  AckPolicy,
  type ConsumerConfig,
  DiscardPolicy,
  type JetStreamManager,
  NatsError,
  nanos,
  RetentionPolicy,
  StorageType,
  type StreamConfig,
} from "nats";

/** The JetStream stream between relay and dispatchers, and their durable consumer. */
export interface EventStream {
  name: string;
  consumer: string;
  /** Before each subject, without a dot at its end. */
  prefix: string;
}

/** Most messages that the dispatchers together may have open. */
const MAX_UNACKED_MESSAGES = 2_000;

/**
 * A dispatcher that says nothing for this long has lost its message to another. It is how long a message waits when a
 * dispatcher is killed; longer than the rows of one take, and a message that comes again too early does no harm.
 * Milliseconds.
 */
const ACK_TIMEOUT_MS = 5_000;

/** A second publication of one message id within this is dropped. Milliseconds. */
const DEDUPLICATION_WINDOW_MS = 30_000;

/** More than a relay leaves open. A limit in bytes would be taken out of the server's storage at once. */
const MAX_MESSAGES = 100_000;

/** JetStream's «no such stream» and «no such consumer». */
const NOT_FOUND = new Set([10_059, 10_014]);

/** The names that go with a database: several may use one NATS server. */
export function eventStreamOf(databaseUrl: string): EventStream {
  const database = decodeURIComponent(new URL(databaseUrl).pathname.slice(1));
  const token = database.replace(/[^A-Za-z0-9_-]/g, "_");
  return { name: `clinic_events_${token}`, consumer: "webhooks", prefix: `clinic.events.${token}` };
}

/**
 * Creates stream and consumer, as far as they are missing. The stream is a work queue: what has been acked is gone,
 * and when it is full the relay waits, so that nothing falls out of it.
 */
export async function ensureEventStream(jsm: JetStreamManager, stream: EventStream): Promise<void> {
  const config: Partial<StreamConfig> & { name: string } = {
    name: stream.name,
    subjects: [`${stream.prefix}.>`],
    retention: RetentionPolicy.Workqueue,
    storage: StorageType.File,
    discard: DiscardPolicy.New,
    max_msgs: MAX_MESSAGES,
    duplicate_window: nanos(DEDUPLICATION_WINDOW_MS),
  };
  const consumer: Partial<ConsumerConfig> = {
    durable_name: stream.consumer,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ACK_TIMEOUT_MS),
    max_ack_pending: MAX_UNACKED_MESSAGES,
    max_deliver: -1,
  };
  if (!(await exists(() => jsm.streams.info(stream.name)))) await jsm.streams.add(config);
  if (!(await exists(() => jsm.consumers.info(stream.name, stream.consumer)))) {
    await jsm.consumers.add(stream.name, consumer);
  }
}

/**
 * Deletes the stream with all messages, if there is one. Relay and dispatchers lose it at once, whatever they hold in
 * memory, and create an empty one when they go on.
 */
export async function deleteEventStream(jsm: JetStreamManager, stream: EventStream): Promise<void> {
  if (await exists(() => jsm.streams.info(stream.name))) await jsm.streams.delete(stream.name);
}

async function exists(request: () => Promise<unknown>): Promise<boolean> {
  try {
    await request();
    return true;
  } catch (error) {
    if (error instanceof NatsError && NOT_FOUND.has(error.api_error?.err_code ?? 0)) return false;
    throw error;
  }
}
