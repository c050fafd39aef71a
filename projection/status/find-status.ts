import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { readLogEnd } from "../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { isFilled, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { findLogDifference, type LogAndDatabase, requireSameLog } from "../checkpoints/same-log.ts";
import { readWebhookCheckpoint } from "../checkpoints/webhook-checkpoints.ts";
import { computeFingerprint } from "../engine/ddl.ts";
import { listOtherReadModels } from "../engine/prune.ts";
import type { AnyReadModel } from "../engine/read-model.ts";
import {
  type QuarantineDecision,
  readQuarantineDecisions,
  readQuarantinedStreams,
} from "../quarantine/quarantined-streams.ts";
import { type ProcessStatus, readProcessStatuses } from "../roles/process-status.ts";
import type { LogRole } from "../roles/role.ts";
import { type Lag, LagMeter } from "./lag.ts";
import { countDeliveries, type DeliveryCounts } from "./measure-deliveries.ts";

export interface Status {
  /** Error message if the database was built from another log. Otherwise null. */
  differentLog: string | null;
  isOwnRelease: boolean;
  /** True if the read models have ever reached the end of the log. */
  isFilled: boolean;
  otherReadModels: string[];
  followers: FollowerStatus[];
  webhooks: FollowerStatus & DeliveryCounts & EventsAside;
  /** Empty if another release built the read models. */
  readModels: { table: string; rows: number; exact: boolean }[];
  quarantined: QuarantinedStatus[];
  /** Sessions whose locks delay the service. */
  blockingSessions: BlockingSession[];
  /** Versions of the command's Node.js, of its ICU, and of the time zone data in it. */
  runtime: Record<"node" | "icu" | "tz", string | undefined>;
}

export interface FollowerStatus extends RoleProcesses {
  role: LogRole;
  position: bigint;
  /** Null if the log does not match the database, because positions of different logs cannot be compared. */
  lag: Lag | null;
}

/** Public events that were set aside, because they could not be processed. */
export interface EventsAside {
  eventsAside: number;
  /** Error of one of them; null if there are none. */
  asideCause: string | null;
}

export interface RoleProcesses {
  /**
   * Status of the role's most relevant process. In order of relevance, a process is running, starting, failed or on
   * standby. If no process is alive, this is the status of the process that reported last. Undefined if no process ever
   * reported.
   */
  process: ProcessStatus | undefined;
  /** True if a process of the role has reported recently, see `ALIVE_TIMEOUT_MS`. */
  alive: boolean;
  working: number;
  standby: number;
}

export interface QuarantinedStatus
  extends Omit<QuarantineDecision, "reason" | "actor">,
    Partial<Pick<QuarantineDecision, "reason" | "actor">> {
  /** Number of the stream's events that the read models lack. */
  events: bigint;
  /**
   * `quarantined`: the read models skip the stream. `taken`: an operator quarantined the stream, but the read models
   * lack no events.
   */
  state: "quarantined" | "taken";
}

/** A process that has not reported for this time counts as dead. Processes report every two seconds. */
const ALIVE_TIMEOUT_MS = 10_000;

/** Maximum number of rows that are counted exactly. For larger tables, Postgres estimates the number. */
const MAX_COUNTED_ROWS = 10_000;

/** Collects the status for operators. @param now milliseconds since 1970 */
export async function findStatus(
  { client, pool, models }: LogAndDatabase & { models: readonly AnyReadModel[] },
  now: number,
): Promise<Status> {
  const statuses = await readProcessStatuses(pool);
  const logEnd = await readLogEnd(client);
  const checkpoint = await readCheckpoint(pool, READ_MODEL_SCHEMA);
  const positionsByRole = {
    projectors: checkpoint.position,
    relay: (await readWebhookCheckpoint(pool, "messages")).position,
    webhooks: (await readWebhookCheckpoint(pool, "deliveries")).position,
  };
  const differentLog = (await findLogDifference(requireSameLog({ client, pool })))?.message ?? null;
  const findFollower = async <Role extends LogRole>(role: Role) => {
    const position = positionsByRole[role];
    const lag = differentLog === null ? await new LagMeter(client).measure(position, logEnd, now) : null;
    return { role, position, lag, ...findProcesses(role, statuses, now) };
  };
  const followers = [await findFollower("projectors"), await findFollower("relay")];
  const webhooks = {
    ...(await findFollower("webhooks")),
    ...(await countDeliveries(pool, now)),
    ...(await findEventsAside(pool)),
  };
  const isOwnRelease = checkpoint.fingerprint === computeFingerprint(models);
  const readModels: Status["readModels"] = [];
  for (const { table } of isOwnRelease ? models : []) {
    readModels.push({ table, ...(await countRows(pool, table)) });
  }
  const quarantined = await listQuarantinedStreams(client, pool);
  const releases = {
    isFilled: await isFilled(pool, READ_MODEL_SCHEMA),
    otherReadModels: await listOtherReadModels(pool),
  };
  const { node, icu, tz } = process.versions;
  const rest = { blockingSessions: await findBlockingSessions(pool), runtime: { node, icu, tz } };
  return { differentLog, isOwnRelease, ...releases, followers, webhooks, readModels, quarantined, ...rest };
}

function findProcesses(role: LogRole, statuses: readonly ProcessStatus[], now: number): RoleProcesses {
  const roleStatuses = statuses.filter((status) => status.role === role);
  const aliveStatuses = roleStatuses.filter(({ at, state }) => now - at < ALIVE_TIMEOUT_MS && state !== "stopped");
  const findAlive = (state: ProcessStatus["state"]) => aliveStatuses.filter((status) => status.state === state);
  const runningStatuses = findAlive("running");
  const rankedStatuses = [
    ...runningStatuses,
    ...findAlive("starting"),
    ...findAlive("failed"),
    ...aliveStatuses,
    ...roleStatuses,
  ];
  return {
    process: rankedStatuses[0],
    alive: aliveStatuses.length > 0,
    working: runningStatuses.length,
    standby: findAlive("standby").length,
  };
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

/** Lists the streams that operators or the projectors have quarantined. */
export async function listQuarantinedStreams(client: EventStoreDBClient, pool: pg.Pool): Promise<QuarantinedStatus[]> {
  const { streams } = await readQuarantineDecisions(client);
  const { position } = await readCheckpoint(pool, READ_MODEL_SCHEMA);
  const quarantinedStreams = await readQuarantinedStreams(pool, READ_MODEL_SCHEMA);
  const decidedStatuses = [...streams.values()].map((stream): QuarantinedStatus => {
    const events = quarantinedStreams.get(stream.stream)?.events ?? 0n;
    return { ...stream, events, state: events === 0n && stream.position <= position ? "taken" : "quarantined" };
  });
  const automaticStatuses = [...quarantinedStreams]
    .filter(([stream]) => !streams.has(stream))
    .map(([stream, { clinicId: _, ...values }]): QuarantinedStatus => ({ stream, ...values, state: "quarantined" }));
  return [...decidedStatuses, ...automaticStatuses];
}

async function findEventsAside(pool: pg.Pool): Promise<EventsAside> {
  const { rows } = await pool.query<EventsAside>(
    `SELECT count(*)::integer AS "eventsAside", min(cause) AS "asideCause"
       FROM webhooks.late_event WHERE cause IS NOT NULL AND (needs_deliveries OR needs_message)`,
  );
  return rows[0] ?? { eventsAside: 0, asideCause: null };
}

/** A session of Postgres that holds a lock for which the projection service waits. */
interface BlockingSession {
  pid: number;
  user: string;
  application: string;
  /** Time for which the service's statement has waited. */
  seconds: number;
}

/** Finds the sessions that have blocked a statement of this role for more than a second, for example a human's `psql`. */
export async function findBlockingSessions(pool: pg.Pool): Promise<BlockingSession[]> {
  const { rows } = await pool.query<BlockingSession>(FIND_STATEMENT);
  return rows;
}

/** Postgres hides when the transaction of another role began, so the time is that of the waiting statement. */
const FIND_STATEMENT = {
  name: "blocking sessions",
  text: `
    SELECT b.pid, b.usename::text AS "user", b.application_name AS application,
           max(extract(epoch FROM clock_timestamp() - w.query_start))::float8 AS seconds
      FROM pg_stat_activity w
      CROSS JOIN LATERAL unnest(pg_blocking_pids(w.pid)) blocking (pid)
      JOIN pg_stat_activity b ON b.pid = blocking.pid
     WHERE w.usename = current_user AND w.wait_event_type = 'Lock'
       AND w.query_start < clock_timestamp() - interval '1 second' AND b.usename IS NOT NULL
     GROUP BY b.pid, b.usename, b.application_name
     ORDER BY b.pid`,
};
