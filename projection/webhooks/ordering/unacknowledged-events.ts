import type pg from "pg";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { Logger } from "../../../shared/runtime/logger.ts";
import { readRelayCheckpoint } from "../../checkpoints/relay-checkpoint.ts";
import { type EventMessage, relayMessageSchema } from "../../relay/message.ts";
import { toMessage } from "../../relay/to-message.ts";

/** Resources for reading earlier events. */
export interface EarlierEventDeps {
  pool: pg.Pool;
  log: EventLog;
  logger: Logger;
}

/**
 * Reads the public events that come before events in their streams and that the relay's checkpoint has not passed. If
 * the events of a stream cannot be read, logs a warning and leaves them out.
 */
export async function readUnacknowledgedEvents(
  { pool, log, logger }: EarlierEventDeps,
  events: readonly EventMessage[],
): Promise<EventMessage[]> {
  const { position: checkpoint } = await readRelayCheckpoint(pool);
  const revisions = new Map<string, bigint>();
  for (const { stream, revision } of events) {
    if (revision > (revisions.get(stream) ?? -1n)) revisions.set(stream, revision);
  }
  const readBefore = async ([stream, revision]: [string, bigint]) => {
    try {
      return await readStreamBefore(log, { stream, revision }, checkpoint);
    } catch (error) {
      logger.warn({ error, stream, revision: String(revision) }, "Events before a deferred event cannot be read.");
      return [];
    }
  };
  return (await Promise.all(Array.from(revisions, readBefore))).flat();
}

async function readStreamBefore(
  log: EventLog,
  { stream, revision }: { stream: string; revision: bigint },
  checkpoint: bigint,
): Promise<EventMessage[]> {
  const history = await log.read(stream, revision - 1n);
  const unacknowledgedEvents = history.filter(({ position }) => position > checkpoint);
  const outgoingMessages = await Promise.all(unacknowledgedEvents.map((event) => toMessage(log, event)));
  return outgoingMessages.flatMap((outgoingMessage) => {
    const message = outgoingMessage && relayMessageSchema.parse(outgoingMessage.message);
    return message?.kind === "event" ? [message] : [];
  });
}
