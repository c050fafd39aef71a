import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { ParkingEvent } from "../../shared/domain/events/parking.ts";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { type EventLog, WrongExpectedRevision } from "../../shared/eventstore/log.ts";
import type { LogPosition } from "../../shared/eventstore/subscription.ts";
import { READ_MODEL_SCHEMA, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { eventAt } from "../checkpoints/event-at.ts";
import { readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { readProcessStatuses } from "../roles/process-status.ts";
import { type Follower, isParked, PARKING_STREAM, type ParkedStream, readParked } from "./parked-streams.ts";
import { readPassedOver } from "./passed-over.ts";

/** An operator's act cannot be done; the message says why. */
export class ActRefused extends Error {
  override readonly name = "ActRefused";
}

/** Who acts, why and when. */
export interface Act {
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

/** Longest cause that is kept. */
const LONGEST_CAUSE = 2_000;

/**
 * Parks the stream of the event that the projectors or the relay stopped at, from that event on. Nowhere else: what the
 * read models have of a stream must end where all pass it over, or a rebuild would come to another result. Where the
 * relay alone has stopped, the relay alone passes it over, and the read models keep it.
 *
 * @returns the event, and who passes it over
 * @throws {ActRefused}
 */
export async function parkStream(
  deps: ParkingDeps,
  position: bigint,
  act: Act,
): Promise<LogPosition & { passedOverBy: "all" | "relay" }> {
  const place = await eventAt(deps.client, position);
  if (!place) throw new ActRefused(`no event stands at position ${position}`);
  const stopped = await findStopped(deps.pool, position);
  if (!stopped) {
    throw new ActRefused(`neither projectors nor relay have stopped at position ${position}: see status`);
  }
  const parked = await readParked(deps.log);
  if (isParked(parked, stopped.by, place))
    throw new ActRefused(`stream ${place.stream} is parked: see status`);
  const { stream, revision, type: eventType } = place;
  const passedOverBy = stopped.by === "relay" ? "relay" : "all";
  const of = { stream, revision: Number(revision), position: String(position), passedOverBy } as const;
  const data = { ...of, eventType, cause: stopped.cause, reason: act.reason };
  await record(deps.log, parked.upTo, { type: "StreamParked", data }, act);
  return { ...place, passedOverBy };
}

/** Who has stopped at a position and why: the projectors, or the relay where they have not. */
async function findStopped(
  pool: pg.Pool,
  position: bigint,
): Promise<{ by: Follower; cause: string } | undefined> {
  const checkpoints = {
    projectors: await readCheckpoint(pool, READ_MODEL_SCHEMA),
    relay: (await readRelayCheckpoint(pool)).position,
  };
  const statuses = await readProcessStatuses(pool);
  for (const by of ["projectors", "relay"] as const) {
    const stopped = statuses.find(
      ({ role, state, failedAt }) => role === by && state === "failed" && failedAt?.position === position,
    );
    if (!stopped || checkpoints[by] >= position) continue;
    return { by, cause: (stopped.lastError?.message ?? "").slice(0, LONGEST_CAUSE) || "unknown" };
  }
  return undefined;
}

/**
 * Finds the stream that is parked at a position.
 *
 * @returns it, and whether the read models that serve leave events of it out: then they must be rebuilt with it
 *   before it is resumed
 * @throws {ActRefused}
 */
export async function findParked(
  { log, pool }: ParkingDeps,
  position: bigint,
): Promise<{ parked: ParkedStream; leftOut: boolean }> {
  const { streams, untold } = await readParked(log);
  const parked = [...streams.values(), ...untold.values()].find((entry) => entry.position === position);
  if (!parked) throw new ActRefused(`nothing is parked at position ${position}`);
  return { parked, leftOut: (await readPassedOver(pool, READ_MODEL_SCHEMA)).has(parked.stream) };
}

/**
 * Takes a stream off the list.
 *
 * @throws {ActRefused} where somebody else acted meanwhile
 */
export async function resumeStream(log: EventLog, stream: string, act: Act): Promise<void> {
  const { upTo } = await readParked(log);
  await record(log, upTo, { type: "StreamResumed", data: { stream, reason: act.reason } }, act);
}

async function record(log: EventLog, upTo: bigint, event: ParkingEvent, act: Act): Promise<void> {
  const id = randomUUID();
  const metadata = {
    $correlationId: id,
    $causationId: id,
    actor: { type: "operator" as const, id: act.actor },
    clinicId: null,
    environment: null,
    occurredAt: toInstant(act.now),
  };
  try {
    await log.append(PARKING_STREAM, upTo, [{ id, event, metadata }]);
  } catch (error) {
    if (!(error instanceof WrongExpectedRevision)) throw error;
    throw new ActRefused("somebody else parked or resumed a stream just now: see status", { cause: error });
  }
}
