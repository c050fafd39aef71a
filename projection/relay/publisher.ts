import { randomUUID } from "node:crypto";
import { createInbox, headers, type Msg, type NatsConnection } from "nats";
import { onAbort } from "../../shared/runtime/abort.ts";

interface Publisher {
  /**
   * @param id id for deduplication: the server drops a second message with the same id
   * @param traceparent W3C trace context, which becomes a header of the message
   * @returns sequence number of the message, once the server has stored it
   * @throws if the server refuses the message or does not confirm the message in time, or if the stream has lost
   *   messages
   */
  publish(subject: string, id: string, payload: Uint8Array, traceparent?: string): Promise<number>;
}

interface Confirmation {
  sequence: number;
  /** If true, the server dropped the message, and `sequence` belongs to an earlier message with the same id. */
  isDuplicate: boolean;
}

interface PendingConfirmation {
  publishedAt: number;
  resolve(confirmation: Confirmation): void;
  reject(error: Error): void;
}

const MESSAGE_ID_HEADER = "Nats-Msg-Id";

export const TRACEPARENT_HEADER = "traceparent";

const CONFIRM_TIMEOUT_MS = 5_000;
const TIMEOUT_CHECK_INTERVAL_MS = 500;

/**
 * Creates a publisher with one subscription and one timer for all confirmations. The publisher works until the signal
 * aborts. The publisher in the NATS client library creates a timer and an error object for each message, which takes
 * longer than sending the message.
 *
 * If the server drops a message because a dispatcher has already received it, the publisher sends the message with a
 * new id. The dispatcher's transaction can be lost in a failover of Postgres although the message is acknowledged.
 *
 * @param deliveredSequence sequence number of the last message that a dispatcher received before the publisher existed
 */
export function createPublisher(connection: NatsConnection, deliveredSequence: number, signal: AbortSignal): Publisher {
  const inbox = createInbox();
  const pendingConfirmations = new Map<string, PendingConfirmation>();
  let messageCount = 0;
  let lastSequence = deliveredSequence;
  const requireNewSequence = (confirmation: Confirmation) => {
    const { sequence, isDuplicate } = confirmation;
    // After messages were lost, the stream assigns their numbers again. An acknowledgement of a lost message would then
    // look like an acknowledgement of a new message, or the other way round.
    if (!isDuplicate && sequence <= lastSequence) throw new Error("The JetStream stream has lost messages.");
    lastSequence = Math.max(lastSequence, sequence);
    return confirmation;
  };
  const settleConfirmation = (message: Msg) => {
    const replyToken = message.subject.slice(inbox.length + 1);
    const confirmation = pendingConfirmations.get(replyToken);
    pendingConfirmations.delete(replyToken);
    try {
      confirmation?.resolve(requireNewSequence(parseConfirmation(message)));
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
  const send = (subject: string, id: string, payload: Uint8Array, traceparent?: string): Promise<Confirmation> => {
    const replyToken = String(messageCount++);
    const messageHeaders = headers();
    messageHeaders.set(MESSAGE_ID_HEADER, id);
    if (traceparent !== undefined) messageHeaders.set(TRACEPARENT_HEADER, traceparent);
    connection.publish(subject, payload, { reply: `${inbox}.${replyToken}`, headers: messageHeaders });
    return new Promise((resolve, reject) => {
      pendingConfirmations.set(replyToken, { publishedAt: performance.now(), resolve, reject });
    });
  };
  return {
    async publish(subject, id, payload, traceparent) {
      const { sequence, isDuplicate } = await send(subject, id, payload, traceparent);
      if (!isDuplicate || sequence > deliveredSequence) return sequence;
      return (await send(subject, `${id} ${randomUUID()}`, payload, traceparent)).sequence;
    },
  };
}

/** @throws if the server refused the message, or no stream has the message's subject */
function parseConfirmation(message: Msg): Confirmation {
  if (message.headers?.hasError) throw new Error(`NATS refused a message with status ${message.headers.status}.`);
  const { seq, duplicate, error } = message.json<{
    seq?: number;
    duplicate?: boolean;
    error?: { description: string };
  }>();
  if (error) throw new Error(`NATS refused a message: ${error.description}`);
  if (seq === undefined) throw new Error("The response of NATS to a message has no sequence number.");
  return { sequence: seq, isDuplicate: duplicate === true };
}
