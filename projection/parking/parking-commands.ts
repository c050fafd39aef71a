import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { ParkingEvent } from "../../shared/domain/events/parking.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { type EventLog, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { READ_MODEL_SCHEMA, readPosition } from "../checkpoints/checkpoint.ts";
import { eventAt } from "../checkpoints/event-at.ts";
import { readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { readProcessStatuses } from "../roles/process-status.ts";
import { type Follower, isParked, PARKING_STREAM, type ParkedStream, readParked } from "./parked-streams.ts";
import { readSkipped } from "./skipped-events.ts";

/** The command of an operator was refused. The message says why. */
export class CommandRefusedError extends Error {
  override readonly name = "CommandRefusedError";
}

/** Operator, reason and time of a command. */
export interface ParkingCommand {
  actor: string;
  reason: string;
  /** Milliseconds since 1970. */
  now: number;
}

export interface ParkingDeps {
  client: EventStoreDBClient;
  log: EventLog;
  pool: pg.Pool;
}

/** Longest stored cause, in characters. */
const MAX_CAUSE_LENGTH = 2_000;

/**
 * Parks the stream of the event at which projectors or relay stopped, from that event on. Other events cannot be parked:
 * the read models could include events that a rebuild skips. If only the relay stopped, parking applies only to the relay.
 *
 * @returns the event, and the roles that skip the stream
 * @throws {CommandRefusedError}
 */
export async function parkStream(
  deps: ParkingDeps,
  position: bigint,
  command: ParkingCommand,
): Promise<LogPosition & { passedOverBy: "all" | "relay" }> {
  const place = await eventAt(deps.client, position);
  if (!place) throw new CommandRefusedError(`There is no event at position ${position}.`);
  const stopped = await findStopped(deps.pool, position);
  if (!stopped) {
    throw new CommandRefusedError(
      `Neither projectors nor relay stopped at position ${position}. Run status for the position.`,
    );
  }
  const parked = await readParked(deps.log);
  if (isParked(parked, stopped.by, place))
    throw new CommandRefusedError(`Stream ${place.stream} is already parked. Run status for details.`);
  const { stream, revision, type: eventType } = place;
  const passedOverBy = stopped.by === "relay" ? "relay" : "all";
  const of = { stream, revision: Number(revision), position: String(position), passedOverBy } as const;
  const data = { ...of, eventType, cause: stopped.cause, reason: command.reason };
  await record(deps.log, parked.upTo, { type: "StreamParked", data }, command);
  return { ...place, passedOverBy };
}

/** Finds the role that stopped at a position, and the cause. The projectors come first. */
async function findStopped(
  pool: pg.Pool,
  position: bigint,
): Promise<{ by: Follower; cause: string } | undefined> {
  const checkpoints = {
    projectors: await readPosition(pool, READ_MODEL_SCHEMA),
    relay: (await readRelayCheckpoint(pool)).position,
  };
  const statuses = await readProcessStatuses(pool);
  for (const by of ["projectors", "relay"] as const) {
    const stopped = statuses.find(
      ({ role, state, failedAt }) => role === by && state === "failed" && failedAt?.position === position,
    );
    if (!stopped || checkpoints[by] >= position) continue;
    return { by, cause: (stopped.lastError?.message ?? "").slice(0, MAX_CAUSE_LENGTH) || "unknown" };
  }
  return undefined;
}

/**
 * Finds the stream that is parked at a position.
 *
 * @returns the stream. `leftOut` is true if the read models lack events of it; then they must be rebuilt with these events
 *   before the stream is resumed
 * @throws {CommandRefusedError}
 */
export async function findParked(
  { log, pool }: ParkingDeps,
  position: bigint,
): Promise<{ parked: ParkedStream; leftOut: boolean }> {
  const { streams, relayOnly } = await readParked(log);
  const parked = [...streams.values(), ...relayOnly.values()].find((entry) => entry.position === position);
  if (!parked) throw new CommandRefusedError(`No stream is parked at position ${position}.`);
  return { parked, leftOut: (await readSkipped(pool, READ_MODEL_SCHEMA)).has(parked.stream) };
}

/**
 * Resumes a parked stream.
 *
 * @throws {CommandRefusedError} if another command was first
 */
export async function resumeStream(log: EventLog, stream: string, command: ParkingCommand): Promise<void> {
  const { upTo } = await readParked(log);
  await record(log, upTo, { type: "StreamResumed", data: { stream, reason: command.reason } }, command);
}

async function record(
  log: EventLog,
  upTo: bigint,
  event: ParkingEvent,
  command: ParkingCommand,
): Promise<void> {
  const id = randomUUID();
  const metadata = {
    $correlationId: id,
    $causationId: id,
    actor: { type: "operator" as const, id: command.actor },
    clinicId: null,
    environment: null,
    occurredAt: toInstant(command.now),
  };
  try {
    await log.append(PARKING_STREAM, upTo, [{ id, event, metadata }]);
  } catch (error) {
    if (!(error instanceof WrongExpectedRevisionError)) throw error;
    throw new CommandRefusedError(
      "Another operator parked or resumed a stream just now. Run status, then try again.",
      {
        cause: error,
      },
    );
  }
}
