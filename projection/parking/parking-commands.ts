import { randomUUID } from "node:crypto";
import type pg from "pg";
import type { Actor } from "../../shared/domain/events/metadata.ts";
import type { ParkingEvent } from "../../shared/domain/events/parking.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { type EventLog, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import { readEventAt } from "../../shared/eventstore/read-log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import { readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import type { LogAndDatabase } from "../checkpoints/same-log.ts";
import { readProcessStatuses } from "../roles/process-status.ts";
import type { LogRole } from "../roles/role.ts";
import { isParked, PARKING_STREAM, type ParkedStream, readParkedStreams } from "./parked-streams.ts";
import { readSkippedEvents } from "./skipped-events.ts";

export class CommandRefusedError extends Error {
  override readonly name = "CommandRefusedError";
}

interface ParkingCommand {
  actor: Actor;
  reason: string;
  /** Milliseconds since 1970. */
  now: number;
}

interface ParkingDeps extends LogAndDatabase {
  log: EventLog;
}

const MAX_CAUSE_LENGTH = 2_000;

/**
 * Parks the stream of the event at which the projectors or the relay stopped. Parking starts with that event. Other
 * streams cannot be parked, because the read models could then include events that a rebuild skips. If only the relay
 * stopped, parking applies only to the relay.
 *
 * @returns the event, and the roles that skip the event's stream
 * @throws {CommandRefusedError}
 */
export async function parkStream(
  deps: ParkingDeps,
  position: bigint,
  command: ParkingCommand,
): Promise<LogPosition & { passedOverBy: "all" | "relay" }> {
  const storedEvent = await readEventAt(deps.client, position);
  if (!storedEvent) throw new CommandRefusedError(`There is no event at position ${position}.`);
  const { id, streamId: stream, revision, type: eventType } = storedEvent;
  const event = { id, position, stream, revision, type: eventType };
  const stoppedRole = await findStoppedRole(deps.pool, position);
  if (!stoppedRole) {
    throw new CommandRefusedError(
      `Neither projectors nor relay stopped at position ${position}. Run status to see the position.`,
    );
  }
  const parkedList = await readParkedStreams(deps.log);
  if (isParked(parkedList, stoppedRole.role, event))
    throw new CommandRefusedError(`Stream ${stream} is already parked. Run status for details.`);
  const passedOverBy: "all" | "relay" = stoppedRole.role === "relay" ? "relay" : "all";
  const data = {
    stream,
    revision: Number(revision),
    position: String(position),
    passedOverBy,
    eventType,
    cause: stoppedRole.cause,
    reason: command.reason,
  };
  await appendParkingEvent(deps.log, parkedList.lastRevision, { type: "StreamParked", data }, command);
  return { ...event, passedOverBy };
}

/** If both roles stopped at this position, returns the projectors role. */
async function findStoppedRole(pool: pg.Pool, position: bigint): Promise<{ role: LogRole; cause: string } | undefined> {
  const checkpoints = {
    projectors: (await readCheckpoint(pool, READ_MODEL_SCHEMA)).position,
    relay: (await readRelayCheckpoint(pool)).position,
  };
  const statuses = await readProcessStatuses(pool);
  for (const role of ["projectors", "relay"] as const) {
    const failedStatus = statuses.find(
      (status) => status.role === role && status.state === "failed" && status.failedAt?.position === position,
    );
    if (!failedStatus || checkpoints[role] >= position) continue;
    return { role, cause: (failedStatus.lastError?.message ?? "").slice(0, MAX_CAUSE_LENGTH) || "unknown" };
  }
  return undefined;
}

/**
 * Finds the stream that is parked at a position.
 *
 * @returns the stream. `isIncomplete` is true if the read models lack events of the stream. In that case, the read
 *   models must be rebuilt with these events before the stream is resumed
 * @throws {CommandRefusedError}
 */
export async function findParkedStream(
  { log, pool }: ParkingDeps,
  position: bigint,
): Promise<{ parkedStream: ParkedStream; isIncomplete: boolean }> {
  const { streams, relayOnlyStreams } = await readParkedStreams(log);
  const parkedStreams = [...streams.values(), ...relayOnlyStreams.values()];
  const parkedStream = parkedStreams.find((stream) => stream.position === position);
  if (!parkedStream) throw new CommandRefusedError(`No stream is parked at position ${position}.`);
  return { parkedStream, isIncomplete: (await readSkippedEvents(pool, READ_MODEL_SCHEMA)).has(parkedStream.stream) };
}

/**
 * Resumes a parked stream.
 *
 * @throws {CommandRefusedError} if another command has just parked or resumed a stream
 */
export async function resumeStream(log: EventLog, stream: string, command: ParkingCommand): Promise<void> {
  const { lastRevision } = await readParkedStreams(log);
  const event = { type: "StreamResumed", data: { stream, reason: command.reason } } as const;
  await appendParkingEvent(log, lastRevision, event, command);
}

async function appendParkingEvent(
  log: EventLog,
  lastRevision: bigint,
  event: ParkingEvent,
  command: ParkingCommand,
): Promise<void> {
  const id = randomUUID();
  const metadata = {
    $correlationId: id,
    $causationId: id,
    actor: command.actor,
    clinicId: null,
    environment: null,
    occurredAt: toInstant(command.now),
  };
  try {
    await log.append(PARKING_STREAM, lastRevision, [{ id, event, metadata }]);
  } catch (error) {
    if (!(error instanceof WrongExpectedRevisionError)) throw error;
    throw new CommandRefusedError("Another operator parked or resumed a stream just now. Run status, then try again.", {
      cause: error,
    });
  }
}
