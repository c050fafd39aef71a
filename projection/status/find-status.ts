import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { readCheckpoint } from "../engine/checkpoint.ts";
import { READ_MODEL_SCHEMA } from "../engine/ddl.ts";
import { readPassedOver } from "../engine/passed-over.ts";
import type { AnyReadModel } from "../engine/read-model.ts";
import { type ParkedStream, readParked } from "../parking/parked-streams.ts";
import { readRelayCheckpoint } from "../relay/relay-checkpoint.ts";
import { type Follower, type Lag, lagBehind } from "./lag.ts";
import { logEnd } from "./log-end.ts";
import { type ProcessStatus, readProcessStatuses } from "./process-status.ts";

/** All that an operator may want to know of the read models and the relay. */
export interface Status {
  followers: FollowerStatus[];
  readModels: { table: string; rows: number; exact: boolean }[];
  parked: ParkedStatus[];
}

export interface FollowerStatus {
  role: Follower;
  position: bigint;
  lag: Lag;
  /** The process that tells most: the one that leads, else one that failed, else the last that was seen. */
  process: ProcessStatus | undefined;
  /** Whether that process has said something within the last seconds. */
  alive: boolean;
  /** Others that stand by. */
  standby: number;
}

export interface ParkedStatus extends Partial<ParkedStream> {
  stream: string;
  position: bigint;
  revision: bigint;
  /** Of its events, how many the read models that serve leave out. */
  events: bigint;
  /**
   * `resumed`: no longer parked, but still left out; `taken`: parked, though the read models have it; `untold`: passed
   * over by the relay alone.
   */
  state: "parked" | "resumed" | "taken" | "untold";
}

/** A process that runs speaks every two seconds. Milliseconds. */
const ALIVE_WITHIN = 10_000;

/** Rows are counted up to here, and beyond estimated by Postgres. */
const COUNTED = 10_000;

/** @param now milliseconds since 1970 */
export async function findStatus(
  { client, pool, models }: { client: EventStoreDBClient; pool: pg.Pool; models: readonly AnyReadModel[] },
  now: number,
): Promise<Status> {
  const statuses = await readProcessStatuses(pool);
  const end = await logEnd(client);
  const positions = {
    projectors: await readCheckpoint(pool, READ_MODEL_SCHEMA),
    relay: await readRelayCheckpoint(pool),
  };
  const followers: FollowerStatus[] = [];
  for (const role of ["projectors", "relay"] as const) {
    const position = positions[role];
    const lag = await lagBehind(client, role, position, end, now);
    followers.push({ role, position, lag, ...processesOf(role, statuses, now) });
  }
  const readModels: Status["readModels"] = [];
  for (const { table } of models) readModels.push({ table, ...(await countRows(pool, table)) });
  return { followers, readModels, parked: await findParked(client, pool, positions.projectors) };
}

function processesOf(
  role: Follower,
  statuses: readonly ProcessStatus[],
  now: number,
): Pick<FollowerStatus, "process" | "alive" | "standby"> {
  const all = statuses.filter((status) => status.role === role);
  const alive = all.filter(({ at, state }) => now - at < ALIVE_WITHIN && state !== "stopped");
  const leads = alive.find(({ state }) => state === "running" || state === "starting");
  const process = leads ?? alive.find(({ state }) => state === "failed") ?? alive[0] ?? all[0];
  const standby = alive.filter(({ state }) => state === "standby").length;
  return { process, alive: alive.length > 0, standby };
}

async function countRows(pool: pg.Pool, table: string): Promise<{ rows: number; exact: boolean }> {
  const name = `${READ_MODEL_SCHEMA}.${table}`;
  const { rows } = await pool.query<{ counted: bigint; estimated: bigint | null }>(
    `SELECT (SELECT count(*) FROM (SELECT FROM ${name} LIMIT ${COUNTED + 1}) t) AS counted,
            pg_stat_get_live_tuples('${name}'::regclass) AS estimated`,
  );
  const { counted = 0n, estimated = 0n } = rows[0] ?? {};
  if (counted <= COUNTED) return { rows: Number(counted), exact: true };
  return { rows: Math.max(COUNTED, Number(estimated ?? 0n)), exact: false };
}

async function findParked(
  client: EventStoreDBClient,
  pool: pg.Pool,
  checkpoint: bigint,
): Promise<ParkedStatus[]> {
  const { streams, untold } = await readParked(createEventLog(client));
  const passed = await readPassedOver(pool, READ_MODEL_SCHEMA);
  const listed = [...streams.values()].map((parked): ParkedStatus => {
    const events = passed.get(parked.stream)?.events ?? 0n;
    const taken = events === 0n && parked.position <= checkpoint;
    return { ...parked, events, state: taken ? "taken" : "parked" };
  });
  const resumed = [...passed].flatMap(([stream, left]): ParkedStatus[] =>
    streams.has(stream) ? [] : [{ stream, ...left, state: "resumed" }],
  );
  const relayed = [...untold.values()].map((parked): ParkedStatus => {
    return { ...parked, events: 0n, state: "untold" };
  });
  return [...listed, ...resumed, ...relayed];
}
