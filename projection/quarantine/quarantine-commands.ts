import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import type pg from "pg";
import type { Actor } from "../../shared/domain/events/metadata.ts";
import type { QuarantineEvent } from "../../shared/domain/events/quarantine.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { type EventLog, WrongExpectedRevisionError } from "../../shared/eventstore/log.ts";
import { readEventAt } from "../../shared/eventstore/read-log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { readCheckpoint } from "../checkpoints/checkpoint.ts";
import type { LogAndDatabase } from "../checkpoints/same-log.ts";
import { readProcessStatuses } from "../roles/process-status.ts";
import {
  isQuarantined,
  QUARANTINE_STREAM,
  readQuarantineDecisions,
  readQuarantinedStreams,
} from "./quarantined-streams.ts";

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

const REPLAY_TIMEOUT_MS = 60_000;

const REPLAY_CHECK_INTERVAL_MS = 50;

/**
 * Quarantines the stream of the event at which the projectors stopped. Quarantine starts with that event. Other streams
 * cannot be quarantined, because the read models could then include events that a rebuild skips.
 *
 * @param options.confirmsType if true, the projectors also quarantine the streams of all other events of the type that
 *   fail and are already in the log
 * @returns the event
 * @throws {CommandRefusedError}
 */
export async function quarantineStream(
  deps: QuarantineDeps,
  position: bigint,
  command: QuarantineCommand,
  { confirmsType }: { confirmsType: boolean },
): Promise<LogPosition> {
  const storedEvent = await readEventAt(deps.client, position);
  if (!storedEvent) throw new CommandRefusedError(`There is no event at position ${position}.`);
  const { streamId: stream, revision, type: eventType } = storedEvent;
  const event = { position, stream, revision, type: eventType };
  const cause = await findCause(deps.pool, position);
  if (cause === undefined) {
    throw new CommandRefusedError(
      `The projectors have not stopped at position ${position}. Run status to see the position.`,
    );
  }
  const decisions = await readQuarantineDecisions(deps.client);
  if (isQuarantined(decisions, event))
    throw new CommandRefusedError(`Stream ${stream} is already quarantined. Run status for details.`);
  const { reason } = command;
  const data = { stream, revision: Number(revision), position: String(position), eventType, cause, reason };
  const decision: QuarantineEvent = confirmsType
    ? { type: "EventTypeConfirmed", data: { eventType, reason } }
    : { type: "StreamQuarantined", data };
  await appendQuarantineEvent(deps.log, decisions.lastRevision, decision, command);
  return event;
}

/** Returns the error at which the projectors stopped. Undefined if they have not stopped at the position. */
async function findCause(pool: pg.Pool, position: bigint): Promise<string | undefined> {
  const statuses = await readProcessStatuses(pool);
  const failedStatus = statuses.find(
    ({ role, state, failedAt }) => role === "projectors" && state === "failed" && failedAt?.position === position,
  );
  if (!failedStatus || (await readCheckpoint(pool, READ_MODEL_SCHEMA)).position >= position) return undefined;
  return (failedStatus.lastError?.message ?? "").slice(0, MAX_CAUSE_LENGTH) || "unknown";
}

/**
 * Resumes the stream that is quarantined at a position, by an operator or automatically. If the read models lack events
 * of the stream, waits until the projectors have replayed it.
 *
 * @returns the stream; `problem` is the reason why the projectors still skip it
 * @throws {CommandRefusedError}
 */
export async function resumeStream(
  { client, log, pool }: QuarantineDeps,
  position: bigint,
  command: QuarantineCommand,
): Promise<{ stream: string; revision: bigint; problem: string | undefined }> {
  const { streams, lastRevision } = await readQuarantineDecisions(client);
  const quarantinedStreams = await readQuarantinedStreams(pool, READ_MODEL_SCHEMA);
  const automaticStreams = [...quarantinedStreams].map(([stream, values]) => ({ stream, ...values }));
  const candidates = [...streams.values(), ...automaticStreams];
  const foundStream = candidates.find((candidate) => candidate.position === position);
  if (!foundStream) throw new CommandRefusedError(`No stream is quarantined at position ${position}.`);
  const { stream, revision } = foundStream;
  const event = { type: "StreamResumed", data: { stream, reason: command.reason } } as const;
  await appendQuarantineEvent(log, lastRevision, event, command);
  for (const deadline = performance.now() + REPLAY_TIMEOUT_MS; ; await setTimeout(REPLAY_CHECK_INTERVAL_MS)) {
    const quarantinedStream = (await readQuarantinedStreams(pool, READ_MODEL_SCHEMA)).get(stream);
    if (!quarantinedStream) return { stream, revision, problem: undefined };
    const { replayedAfterDecision, cause } = quarantinedStream;
    if (replayedAfterDecision !== null && replayedAfterDecision > lastRevision)
      return { stream, revision, problem: cause };
    if (performance.now() > deadline) return { stream, revision, problem: "the projectors have not replayed it yet" };
  }
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
