import { createInbox, headers, type Msg, type NatsConnection } from "nats";
import { onAbort } from "../../shared/runtime/abort.ts";

/** Publisher to a JetStream stream. */
export interface Publisher {
  /**
   * @param id id for deduplication: the server drops a second message with the same id
   * @returns sequence number of the message, once the server has stored it
   * @throws if the server refuses the message or does not confirm the message in time
   */
  publish(subject: string, id: string, payload: Uint8Array): Promise<number>;
}

interface PendingConfirmation {
  /** Time of the publication, by `performance.now()`. */
  publishedAt: number;
  resolve(sequence: number): void;
  reject(error: Error): void;
}

/** Header with the message id that JetStream uses for deduplication. */
const MESSAGE_ID_HEADER = "Nats-Msg-Id";

/** Milliseconds. */
const CONFIRM_TIMEOUT_MS = 5_000;
const TIMEOUT_CHECK_INTERVAL_MS = 500;

/**
 * Creates a publisher with one subscription and one timer for all confirmations. The publisher works until the signal
 * aborts. The publisher in the NATS client library creates a timer and an error object for each message, which takes
 * longer than sending the message.
 */
export function createPublisher(connection: NatsConnection, signal: AbortSignal): Publisher {
  const inbox = createInbox();
  const pendingConfirmations = new Map<string, PendingConfirmation>();
  let messageCount = 0;
  const settleConfirmation = (message: Msg) => {
    const replyToken = message.subject.slice(inbox.length + 1);
    const confirmation = pendingConfirmations.get(replyToken);
    pendingConfirmations.delete(replyToken);
    try {
      confirmation?.resolve(parseConfirmation(message));
    } catch (error) {
      confirmation?.reject(error as Error);
    }
  };
  const subscription = connection.subscribe(`${inbox}.*`, {
    callback: (error, message) => {
      if (!error) settleConfirmation(message);
    },
  });
  const timer = setInterval(() => {
    // Entries are in the order of publication, so the search can end at the first entry that is not overdue.
    for (const [replyToken, { publishedAt, reject }] of pendingConfirmations) {
      if (performance.now() - publishedAt < CONFIRM_TIMEOUT_MS) return;
      pendingConfirmations.delete(replyToken);
      reject(new Error("NATS did not confirm a message in time."));
    }
  }, TIMEOUT_CHECK_INTERVAL_MS);
  onAbort(signal, () => {
    clearInterval(timer);
    if (!connection.isClosed()) subscription.unsubscribe();
  });
  return {
    publish(subject, id, payload) {
      const replyToken = String(messageCount++);
      const messageHeaders = headers();
      messageHeaders.set(MESSAGE_ID_HEADER, id);
      connection.publish(subject, payload, { reply: `${inbox}.${replyToken}`, headers: messageHeaders });
      return new Promise((resolve, reject) => {
        pendingConfirmations.set(replyToken, { publishedAt: performance.now(), resolve, reject });
      });
    },
  };
}

/** Returns the sequence number. @throws if the server refused the message, or no stream has the message's subject */
function parseConfirmation(message: Msg): number {
  if (message.headers?.hasError) throw new Error(`NATS refused a message with status ${message.headers.status}.`);
  const { seq, error } = message.json<{ seq?: number; error?: { description: string } }>();
  if (error) throw new Error(`NATS refused a message: ${error.description}`);
  if (seq === undefined) throw new Error("The response of NATS to a message has no sequence number.");
  return seq;
}
