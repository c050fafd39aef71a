import { randomUUID } from "node:crypto";
import type pg from "pg";
import type { Actor } from "../../shared/domain/events/metadata.ts";
import type { QuarantineEvent } from "../../shared/domain/events/quarantine.ts";
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
import { isQuarantined, QUARANTINE_STREAM, readQuarantineDecisions } from "./decisions.ts";
import { readQuarantinedStreams } from "./quarantined-streams.ts";

export class CommandRefusedError extends Error {
  override readonly name = "CommandRefusedError";
}

interface QuarantineCommand {
  actor: Actor;
  reason: string;
  /** Milliseconds since 1970. */
  now: number;
}

interface QuarantineDeps extends LogAndDatabase {
  log: EventLog;
}

const MAX_CAUSE_LENGTH = 2_000;

/**
 * Quarantines the stream of the event at which the projectors or the relay stopped. Quarantine starts with that event.
 * Other streams cannot be quarantined, because the read models could then include events that a rebuild skips. If only
 * the relay stopped, quarantine applies only to the relay.
 *
 * @returns the event, and the roles that skip the event's stream
 * @throws {CommandRefusedError}
 */
export async function quarantineStream(
  deps: QuarantineDeps,
  position: bigint,
  command: QuarantineCommand,
): Promise<LogPosition & { scope: "all" | "relay" }> {
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
  const decisions = await readQuarantineDecisions(deps.log);
  if (isQuarantined(decisions, stoppedRole.role, event))
    throw new CommandRefusedError(`Stream ${stream} is already quarantined. Run status for details.`);
  const scope: "all" | "relay" = stoppedRole.role === "relay" ? "relay" : "all";
  const data = {
    stream,
    revision: Number(revision),
    position: String(position),
    scope,
    eventType,
    cause: stoppedRole.cause,
    reason: command.reason,
  };
  await appendQuarantineEvent(deps.log, decisions.lastRevision, { type: "StreamQuarantined", data }, command);
  return { ...event, scope };
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
 * Finds the stream that is quarantined at a position, by an operator or automatically.
 *
 * @returns the stream. `isIncomplete` is true if the read models lack events of the stream
 * @throws {CommandRefusedError}
 */
export async function findQuarantinedStream(
  { log, pool }: QuarantineDeps,
  position: bigint,
): Promise<{ stream: string; revision: bigint; isDecided: boolean; isIncomplete: boolean }> {
  const { streams, relayOnlyStreams } = await readQuarantineDecisions(log);
  const decisions = [...streams.values(), ...relayOnlyStreams.values()];
  const quarantinedStreams = await readQuarantinedStreams(pool, READ_MODEL_SCHEMA);
  const automaticStreams = [...quarantinedStreams].map(([stream, values]) => ({ stream, ...values }));
  const foundStream = [...decisions, ...automaticStreams].find((candidate) => candidate.position === position);
  if (!foundStream) throw new CommandRefusedError(`No stream is quarantined at position ${position}.`);
  const { stream, revision } = foundStream;
  const isDecided = decisions.some((decision) => decision.stream === stream);
  return { stream, revision, isDecided, isIncomplete: quarantinedStreams.has(stream) };
}

/**
 * Resumes a quarantined stream.
 *
 * @throws {CommandRefusedError} if another command has just quarantined or resumed a stream
 */
export async function resumeStream(log: EventLog, stream: string, command: QuarantineCommand): Promise<void> {
  const { lastRevision } = await readQuarantineDecisions(log);
  const event = { type: "StreamResumed", data: { stream, reason: command.reason } } as const;
  await appendQuarantineEvent(log, lastRevision, event, command);
}

async function appendQuarantineEvent(
  log: EventLog,
  lastRevision: bigint,
  event: QuarantineEvent,
  command: QuarantineCommand,
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
    await log.append(QUARANTINE_STREAM, lastRevision, [{ id, event, metadata }]);
  } catch (error) {
    if (!(error instanceof WrongExpectedRevisionError)) throw error;
    throw new CommandRefusedError(
      "Another operator quarantined or resumed a stream just now. Run status, then try again.",
      {
        cause: error,
      },
    );
  }
}
