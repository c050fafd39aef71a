import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import type { ParkingEvent } from "../../shared/events/parking.ts";
import { type EventLog, isUnavailable, WrongExpectedRevision } from "../../shared/eventstore/log.ts";
import type { Place } from "../../shared/eventstore/subscription.ts";
import { toInstant } from "../../shared/time/rfc3339.ts";
import { readCheckpoint } from "../engine/checkpoint.ts";
import { READ_MODEL_SCHEMA } from "../engine/ddl.ts";
import { readPassedOver } from "../engine/passed-over.ts";
import { readProcessStatuses } from "../status/process-status.ts";
import { PARKING_STREAM, type ParkedStream, readParked } from "./parked-streams.ts";

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
 * Parks the stream of the event that the projectors stopped at, from that event on. Nowhere else: what the read
 * models have of a stream must end where it is parked, or a rebuild would come to another result.
 *
 * @returns the event
 * @throws {ActRefused}
 */
export async function parkStream(deps: ParkingDeps, position: bigint, act: Act): Promise<Place> {
  const place = await eventAt(deps.client, position);
  if (!place) throw new ActRefused(`no event stands at position ${position}`);
  const statuses = await readProcessStatuses(deps.pool);
  const stopped = statuses.find(
    ({ role, state, failedAt }) =>
      role === "projectors" && state === "failed" && failedAt?.position === position,
  );
  if (!stopped || (await readCheckpoint(deps.pool, READ_MODEL_SCHEMA)) >= position) {
    throw new ActRefused(`the projectors have not stopped at position ${position}: see status`);
  }
  const { streams, upTo } = await readParked(deps.log);
  const parked = streams.get(place.stream);
  if (parked && parked.revision <= place.revision) {
    throw new ActRefused(`stream ${place.stream} is parked since ${parked.since}`);
  }
  const { stream, revision, type: eventType } = place;
  const cause = (stopped.lastError?.message ?? "").slice(0, LONGEST_CAUSE) || "unknown";
  const of = { stream, revision: Number(revision), position: String(position) };
  const data = { ...of, eventType, cause, reason: act.reason };
  await record(deps.log, upTo, { type: "StreamParked", data }, act);
  return place;
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
  const { streams } = await readParked(log);
  const parked = [...streams.values()].find((entry) => entry.position === position);
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

async function eventAt(client: EventStoreDBClient, position: bigint): Promise<Place | undefined> {
  let found: Place | undefined;
  try {
    const fromPosition = { commit: position, prepare: position };
    for await (const { event } of client.readAll({ fromPosition, maxCount: 1 })) {
      if (event?.position.commit !== position) continue;
      found = { position, stream: event.streamId, revision: event.revision, type: event.type };
    }
  } catch (error) {
    // A server may refuse a position that is no event's.
    if (isUnavailable(error)) throw error;
  }
  return found;
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
