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
import { getDatabaseName, parseConnectionString } from "../../shared/postgres/connection-string.ts";

/** Names of the JetStream stream between relay and dispatchers, and of the stream's durable consumer. */
export interface EventStream {
  name: string;
  consumerName: string;
  /** Prefix of all subjects, without a final dot. */
  subjectPrefix: string;
}

/** Maximum number of unacknowledged messages of all dispatchers together. */
const MAX_UNACKED_MESSAGES = 2_000;

/**
 * Time after which JetStream redelivers an unacknowledged message, for example because its dispatcher was killed. A
 * dispatcher needs less time for a batch, and a repeated message does no harm. Milliseconds.
 */
const ACK_TIMEOUT_MS = 5_000;

/** JetStream drops a second message with the same id within this time. Milliseconds. */
const DEDUPLICATION_WINDOW_MS = 30_000;

/**
 * Maximum number of messages in the stream. A relay waits at a much lower number of unacknowledged messages. There is
 * no limit in bytes, because the server would reserve that storage when it creates the stream.
 */
const MAX_MESSAGES = 100_000;

/** Error codes of JetStream for a missing stream and a missing consumer. */
const NOT_FOUND_CODES = new Set([10_059, 10_014]);

/**
 * Returns the names of a database's stream and consumer. Each database has its own stream, because several databases
 * can share one NATS server.
 */
export function getEventStream(databaseUrl: string): EventStream {
  const databaseName = getDatabaseName(parseConnectionString(databaseUrl));
  const safeName = databaseName.replace(/[^A-Za-z0-9_-]/g, "_");
  return { name: `clinic_events_${safeName}`, consumerName: "webhooks", subjectPrefix: `clinic.events.${safeName}` };
}

/**
 * Creates stream and consumer if they are missing. The stream is a work queue, so JetStream deletes acknowledged
 * messages. A full stream refuses new messages, and the relay waits.
 */
export async function ensureEventStream(jsm: JetStreamManager, stream: EventStream): Promise<void> {
  const config: Partial<StreamConfig> & { name: string } = {
    name: stream.name,
    subjects: [`${stream.subjectPrefix}.>`],
    retention: RetentionPolicy.Workqueue,
    storage: StorageType.File,
    discard: DiscardPolicy.New,
    max_msgs: MAX_MESSAGES,
    duplicate_window: nanos(DEDUPLICATION_WINDOW_MS),
  };
  const consumerConfig: Partial<ConsumerConfig> = {
    durable_name: stream.consumerName,
    ack_policy: AckPolicy.Explicit,
    ack_wait: nanos(ACK_TIMEOUT_MS),
    max_ack_pending: MAX_UNACKED_MESSAGES,
    max_deliver: -1,
  };
  if (!(await isFound(() => jsm.streams.info(stream.name)))) await jsm.streams.add(config);
  if (!(await isFound(() => jsm.consumers.info(stream.name, stream.consumerName)))) {
    await jsm.consumers.add(stream.name, consumerConfig);
  }
}

/**
 * Deletes the stream with all messages, if the stream exists. Running relays and dispatchers immediately lose their
 * session. When they continue, they create an empty stream.
 */
export async function deleteEventStream(jsm: JetStreamManager, stream: EventStream): Promise<void> {
  if (await isFound(() => jsm.streams.info(stream.name))) await jsm.streams.delete(stream.name);
}

async function isFound(sendRequest: () => Promise<unknown>): Promise<boolean> {
  try {
    await sendRequest();
    return true;
  } catch (error) {
    if (error instanceof NatsError && NOT_FOUND_CODES.has(error.api_error?.err_code ?? 0)) return false;
    throw error;
  }
}
