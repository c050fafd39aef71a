import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { untilAborted } from "../../shared/runtime/abort.ts";
import { pause } from "../../shared/runtime/backoff.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { type Checkpoint, READ_MODEL_SCHEMA, readStanding } from "./checkpoint.ts";
import { eventAt } from "./event-at.ts";
import { logEnd } from "./log-end.ts";
import { readRelayCheckpoint } from "./relay-checkpoint.ts";

/** A log, and the database that was built from it. */
export interface LogAndDatabase {
  client: EventStoreDBClient;
  pool: pg.Pool;
}

/** The event log is not the one that the database was built from, or an older copy of it. */
export class DifferentLog extends Error {
  override readonly name = "DifferentLog";

  /**
   * @param whose the checkpoint that does not fit
   * @param found what the log holds instead
   */
  constructor(whose: string, found: string) {
    super(
      `The event log is not the one that this database was built from: ${whose}, but ${found}. The log was replaced or restored from an older backup, or EVENTSTORE_URL is wrong. Nothing is written to the log or the database. To recover, start the original log again. To continue with this log instead, run \`npm run projection -- rebuild --adopt-log\`.`,
    );
  }
}

/** The words for a different log that anybody may read. */
export const DIFFERENT_LOG = "the event log is not the one that this database was built from";

/** The checkpoints of a database. */
export interface Checkpoints {
  readModels: Checkpoint;
  relay: Checkpoint;
}

/**
 * Checks that the log is the one that the database was built from: it holds the event of each checkpoint's anchor.
 * Read models and relay are checked together, so that no role works while another one has stopped.
 *
 * @returns the checkpoints
 * @throws {DifferentLog}
 * @throws {LogUnavailable}
 */
export async function requireSameLog({ client, pool }: LogAndDatabase): Promise<Checkpoints> {
  const readModels = await readStanding(pool, READ_MODEL_SCHEMA);
  await requireAnchored(client, "the read models", readModels);
  const relay = await readRelayCheckpoint(pool);
  await requireAnchored(client, "the relay", relay);
  return { readModels, relay };
}

/**
 * Checks that a checkpoint belongs to the log. A checkpoint of an earlier release has no anchor; it is only compared
 * with the log's end. Our streams are never deleted or truncated, so no scavenge removes an anchor's event.
 *
 * @param whose names the checkpoint in the error
 * @throws {DifferentLog}
 * @throws {LogUnavailable}
 */
export async function requireAnchored(
  client: EventStoreDBClient,
  whose: string,
  { position, anchor }: Checkpoint,
): Promise<void> {
  if (anchor) {
    const found = await eventAt(client, anchor.position);
    if (found?.id !== anchor.eventId) {
      const expected = `${whose} stopped after event ${anchor.eventId} at position ${anchor.position}`;
      throw new DifferentLog(expected, await describe(client, anchor.position, found?.id));
    }
  }
  if (position <= (anchor?.position ?? -1n)) return;
  const end = await logEnd(client);
  if (end < position) {
    throw new DifferentLog(`${whose} stopped after position ${position}`, endsAt(end));
  }
}

async function describe(
  client: EventStoreDBClient,
  position: bigint,
  foundId: string | undefined,
): Promise<string> {
  if (foundId !== undefined) return `the log holds event ${foundId} there`;
  const end = await logEnd(client);
  return end < position ? endsAt(end) : "the log holds no event there";
}

function endsAt(end: bigint): string {
  return end < 0n ? "the log is empty" : `the log ends at position ${end}`;
}

/** The log is asked again this often. Milliseconds. */
const ASK_EVERY = 1_000;

/**
 * Waits until the log is the one that the database was built from, or the signal aborts. Logs the checkpoints then:
 * after an adoption they are others than before.
 */
export async function untilSameLog(
  { logger, ...both }: LogAndDatabase & { logger: Logger },
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await pause(ASK_EVERY, signal);
    try {
      const checkpoints = await untilAborted(requireSameLog(both), signal);
      if (!checkpoints) return;
      const { readModels, relay } = checkpoints;
      logger.warn(
        { readModels: String(readModels.position), relay: String(relay.position) },
        "The event log is the one behind the database again, or was adopted; the role continues",
      );
      return;
    } catch (error) {
      if (!(error instanceof DifferentLog)) logger.warn({ error }, "cannot check which event log this is");
    }
  }
}
