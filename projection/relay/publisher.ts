import { createInbox, headers, type Msg, type NatsConnection } from "nats";

/** Publishes to a JetStream stream. */
export interface Publisher {
  /**
   * @param id a second publication of it within the stream's window is dropped
   * @returns the message's place in the stream, once the server has it
   * @throws where the server refuses it, or does not answer in time
   */
  publish(subject: string, id: string, data: Uint8Array): Promise<number>;
}

interface Waiting {
  since: number;
  resolve(sequence: number): void;
  reject(error: Error): void;
}

/** The header that carries a message's id. */
const MESSAGE_ID = "Nats-Msg-Id";

/** The server's confirmation comes within this. Milliseconds. */
const CONFIRM_TIMEOUT_MS = 5_000;
const TIMEOUT_CHECK_INTERVAL_MS = 500;

/**
 * A publisher with one subscription for all confirmations and one timer, for as long as the signal lets it. The client's
 * own makes a request of each message, with a timer and an error in store, which costs more than the message.
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
    // In the order of their publication: the first that is in time ends the search.
    for (const [number, { since, reject }] of waiting) {
      if (performance.now() - since < CONFIRM_TIMEOUT_MS) return;
      waiting.delete(number);
      reject(new Error("NATS did not confirm a message in time"));
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

/** @throws where it is no confirmation, but a refusal, or says that no stream listens */
function sequenceOf(message: Msg): number {
  if (message.headers?.hasError) throw new Error(`NATS: ${message.headers.status}`);
  const answer = message.json<{ seq?: number; error?: { description: string } }>();
  if (answer.error) throw new Error(`NATS: ${answer.error.description}`);
  if (answer.seq === undefined) throw new Error("NATS: not a confirmation");
  return answer.seq;
}
