import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { logEnd } from "../checkpoints/log-end.ts";
import { readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { DifferentLogError, requireSameLog } from "../checkpoints/same-log.ts";
import { shapeOf } from "../engine/ddl.ts";
import type { AnyReadModel } from "../engine/read-model.ts";
import { type ParkedStream, readParked } from "../parking/parked-streams.ts";
import { readSkipped } from "../parking/skipped-events.ts";
import { type ProcessStatus, readProcessStatuses } from "../roles/process-status.ts";
import { countDeliveries, type DeliveryCounts } from "./count-deliveries.ts";
import { type Follower, type Lag, lagBehind } from "./lag.ts";

/** Status of the projection service for operators. */
export interface Status {
  /** Error message if the database was built from another log; otherwise null. */
  differentLog: string | null;
  /** True if this release built the read models. */
  ownRelease: boolean;
  followers: FollowerStatus[];
  webhooks: RoleProcesses & DeliveryCounts;
  /** Empty if another release built the read models. */
  readModels: { table: string; rows: number; exact: boolean }[];
  parked: ParkedStatus[];
}

export interface FollowerStatus extends RoleProcesses {
  role: Follower;
  position: bigint;
  /** Null for a different log, whose positions cannot be compared. */
  lag: Lag | null;
}

export interface RoleProcesses {
  /** The running process; otherwise one that is starting, failed, on standby, or was seen last. */
  process: ProcessStatus | undefined;
  /** True if a process of the role reported within the last seconds. */
  alive: boolean;
  /** Number of running processes. */
  working: number;
  /** Number of processes on standby. */
  standby: number;
}

export interface ParkedStatus extends Partial<ParkedStream> {
  stream: string;
  position: bigint;
  revision: bigint;
  /** Number of its events that the read models lack. */
  events: bigint;
  /**
   * `resumed`: no longer parked, but the read models still lack events. `taken`: parked, but the read models lack no
   * events. `untold`: only the relay skips it.
   */
  state: "parked" | "resumed" | "taken" | "untold";
}

/** A running process reports every two seconds. Milliseconds. */
const ALIVE_TIMEOUT_MS = 10_000;

/** Larger tables are not counted; Postgres estimates their rows. */
const MAX_COUNTED_ROWS = 10_000;

/** @param now milliseconds since 1970 */
export async function findStatus(
  { client, pool, models }: { client: EventStoreDBClient; pool: pg.Pool; models: readonly AnyReadModel[] },
  now: number,
): Promise<Status> {
  const statuses = await readProcessStatuses(pool);
  const end = await logEnd(client);
  const checkpoint = await readCheckpoint(pool, READ_MODEL_SCHEMA);
  const positions = {
    projectors: checkpoint.position,
    relay: (await readRelayCheckpoint(pool)).position,
  };
  const differentLog = await findDifference(client, pool);
  const followers: FollowerStatus[] = [];
  for (const role of ["projectors", "relay"] as const) {
    const position = positions[role];
    const lag = differentLog === null ? await lagBehind(client, role, position, end, now) : null;
    followers.push({ role, position, lag, ...processesOf(role, statuses, now) });
  }
  const webhooks = { ...processesOf("webhooks", statuses, now), ...(await countDeliveries(pool, now)) };
  const ownRelease = checkpoint.shape === shapeOf(models);
  const readModels: Status["readModels"] = [];
  for (const { table } of ownRelease ? models : []) {
    readModels.push({ table, ...(await countRows(pool, table)) });
  }
  const parked = await findParked(client, pool, positions.projectors);
  return { differentLog, ownRelease, followers, webhooks, readModels, parked };
}

async function findDifference(client: EventStoreDBClient, pool: pg.Pool): Promise<string | null> {
  try {
    await requireSameLog({ client, pool });
    return null;
  } catch (error) {
    if (error instanceof DifferentLogError) return error.message;
    throw error;
  }
}

function processesOf(
  role: Follower | "webhooks",
  statuses: readonly ProcessStatus[],
  now: number,
): RoleProcesses {
  const all = statuses.filter((status) => status.role === role);
  const alive = all.filter(({ at, state }) => now - at < ALIVE_TIMEOUT_MS && state !== "stopped");
  const find = (wanted: ProcessStatus["state"]) => alive.find(({ state }) => state === wanted);
  const process = find("running") ?? find("starting") ?? find("failed") ?? alive[0] ?? all[0];
  const count = (wanted: ProcessStatus["state"]) => alive.filter(({ state }) => state === wanted).length;
  return { process, alive: alive.length > 0, working: count("running"), standby: count("standby") };
}

async function countRows(pool: pg.Pool, table: string): Promise<{ rows: number; exact: boolean }> {
  const name = `${READ_MODEL_SCHEMA}.${table}`;
  const { rows } = await pool.query<{ counted: bigint; estimated: bigint | null }>(
    `SELECT (SELECT count(*) FROM (SELECT FROM ${name} LIMIT ${MAX_COUNTED_ROWS + 1}) t) AS counted,
            pg_stat_get_live_tuples('${name}'::regclass) AS estimated`,
  );
  const { counted = 0n, estimated = 0n } = rows[0] ?? {};
  if (counted <= MAX_COUNTED_ROWS) return { rows: Number(counted), exact: true };
  return { rows: Math.max(MAX_COUNTED_ROWS, Number(estimated ?? 0n)), exact: false };
}

async function findParked(
  client: EventStoreDBClient,
  pool: pg.Pool,
  position: bigint,
): Promise<ParkedStatus[]> {
  const { streams, relayOnly } = await readParked(createEventLog(client));
  const skipped = await readSkipped(pool, READ_MODEL_SCHEMA);
  const listed = [...streams.values()].map((parked): ParkedStatus => {
    const events = skipped.get(parked.stream)?.events ?? 0n;
    const taken = events === 0n && parked.position <= position;
    return { ...parked, events, state: taken ? "taken" : "parked" };
  });
  const resumed = [...skipped].flatMap(([stream, left]): ParkedStatus[] =>
    streams.has(stream) ? [] : [{ stream, ...left, state: "resumed" }],
  );
  const relayed = [...relayOnly.values()].map((parked): ParkedStatus => {
    return { ...parked, events: 0n, state: "untold" };
  });
  return [...listed, ...resumed, ...relayed];
}
