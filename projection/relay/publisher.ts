import { createInbox, headers, type Msg, type NatsConnection } from "nats";

/** Publisher to a JetStream stream. */
export interface Publisher {
  /**
   * @param id for deduplication: the server drops a second message with the same id
   * @returns sequence number of the message, once the server has stored it
   * @throws if the server refuses the message or does not answer in time
   */
  publish(subject: string, id: string, data: Uint8Array): Promise<number>;
}

interface Waiting {
  since: number;
  resolve(sequence: number): void;
  reject(error: Error): void;
}

/** Header with the id of a message. */
const MESSAGE_ID = "Nats-Msg-Id";

/** Milliseconds. */
const CONFIRM_TIMEOUT_MS = 5_000;
const TIMEOUT_CHECK_INTERVAL_MS = 500;

/**
 * Creates a publisher with one subscription and one timer for all confirmations. It works until the signal aborts. The
 * client's own publisher makes a request with a timer and an error for each message, which costs more than the message.
 */
export function createPublisher(connection: NatsConnection, signal: AbortSignal): Publisher {
  const inbox = createInbox();
  const waiting = new Map<string, Waiting>();
  let count = 0;
  const confirm = (message: Msg) => {
    const number = message.subject.slice(inbox.length + 1);
    const one = waiting.get(number);
    waiting.delete(number);
    try {
      one?.resolve(sequenceOf(message));
    } catch (error) {
      one?.reject(error as Error);
    }
  };
  const subscription = connection.subscribe(`${inbox}.*`, {
    callback: (error, message) => {
      if (!error) confirm(message);
    },
  });
  const timer = setInterval(() => {
    // Entries are in the order of publication, so the first one that is in time ends the search.
    for (const [number, { since, reject }] of waiting) {
      if (performance.now() - since < CONFIRM_TIMEOUT_MS) return;
      waiting.delete(number);
      reject(new Error("NATS did not confirm a message in time."));
    }
  }, TIMEOUT_CHECK_INTERVAL_MS);
  const end = () => {
    clearInterval(timer);
    if (!connection.isClosed()) subscription.unsubscribe();
  };
  signal.addEventListener("abort", end, { once: true });
  if (signal.aborted) end();
  return {
    publish(subject, id, data) {
      const number = String(count++);
      const head = headers();
      head.set(MESSAGE_ID, id);
      connection.publish(subject, data, { reply: `${inbox}.${number}`, headers: head });
      return new Promise((resolve, reject) => {
        waiting.set(number, { since: performance.now(), resolve, reject });
      });
    },
  };
}

/** @throws if the server refuses the message, or no stream receives its subject */
function sequenceOf(message: Msg): number {
  if (message.headers?.hasError)
    throw new Error(`NATS refused a message with status ${message.headers.status}.`);
  const answer = message.json<{ seq?: number; error?: { description: string } }>();
  if (answer.error) throw new Error(`NATS refused a message: ${answer.error.description}`);
  if (answer.seq === undefined) throw new Error("NATS answered a message without a confirmation.");
  return answer.seq;
}
