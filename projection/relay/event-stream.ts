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

/** JetStream stream between relay and dispatchers, with its durable consumer. */
export interface EventStream {
  name: string;
  consumer: string;
  /** Prefix of all subjects, without a dot at its end. */
  prefix: string;
}

/** Most unacknowledged messages of all dispatchers together. */
const MAX_UNACKED_MESSAGES = 2_000;

/**
 * Time after which an unacknowledged message is delivered again, for example because its dispatcher was killed. Writing a
 * batch takes less time, and a repeated message does no harm. Milliseconds.
 */
const ACK_TIMEOUT_MS = 5_000;

/** JetStream drops a second message with the same id within this time. Milliseconds. */
const DEDUPLICATION_WINDOW_MS = 30_000;

/** More than a relay leaves outstanding. A limit in bytes would be reserved in the server's storage at once. */
const MAX_MESSAGES = 100_000;

/** Error codes of JetStream: stream not found, consumer not found. */
const NOT_FOUND = new Set([10_059, 10_014]);

/** Returns the names for a database. Several databases can use one NATS server. */
export function eventStreamOf(databaseUrl: string): EventStream {
  const database = decodeURIComponent(new URL(databaseUrl).pathname.slice(1));
  const token = database.replace(/[^A-Za-z0-9_-]/g, "_");
  return { name: `clinic_events_${token}`, consumer: "webhooks", prefix: `clinic.events.${token}` };
}

/**
 * Creates stream and consumer if they are missing. The stream is a work queue: acknowledged messages are deleted. When it
 * is full it refuses new messages, and the relay waits.
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
 * Deletes the stream with all messages, if it exists. Running relays and dispatchers lose their session at once, and create
 * an empty stream when they continue.
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
