import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { readLogEnd } from "../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { isFilled, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { readRelayCheckpoint } from "../checkpoints/relay-checkpoint.ts";
import { findLogDifference, type LogAndDatabase, requireSameLog } from "../checkpoints/same-log.ts";
import { computeFingerprint } from "../engine/ddl.ts";
import { listOtherReadModels } from "../engine/prune.ts";
import type { AnyReadModel } from "../engine/read-model.ts";
import { type QuarantineDecision, readQuarantineDecisions } from "../quarantine/decisions.ts";
import { readQuarantinedStreams } from "../quarantine/quarantined-streams.ts";
import { type ProcessStatus, readProcessStatuses } from "../roles/process-status.ts";
import type { LogRole } from "../roles/role.ts";
import { type BlockingSession, findBlockingSessions } from "./blocking-sessions.ts";
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
  webhooks: RoleProcesses & DeliveryCounts;
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

export interface RoleProcesses {
  /**
   * Status of the most relevant process of the role. In order of relevance, a process is running, starting, failed or
   * on standby. If no process is alive, this is the status of the process that reported last. Undefined if no process
   * ever reported.
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
  /** Number of events of the stream that the read models lack, or about which partners got no webhooks. */
  events: bigint;
  /**
   * `quarantined`: the read models skip the stream. `taken`: an operator quarantined the stream, but the read models
   * lack no events. `unsent`: the relay could not create the messages of events.
   */
  state: "quarantined" | "taken" | "unsent";
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
  const positionsByRole = { projectors: checkpoint.position, relay: (await readRelayCheckpoint(pool)).position };
  const differentLog = (await findLogDifference(requireSameLog({ client, pool })))?.message ?? null;
  const followers: FollowerStatus[] = [];
  for (const role of ["projectors", "relay"] as const) {
    const position = positionsByRole[role];
    const lag = differentLog === null ? await new LagMeter(client, role).measure(position, logEnd, now) : null;
    followers.push({ role, position, lag, ...findProcesses(role, statuses, now) });
  }
  const webhooks = { ...findProcesses("webhooks", statuses, now), ...(await countDeliveries(pool, now)) };
  const isOwnRelease = checkpoint.fingerprint === computeFingerprint(models);
  const readModels: Status["readModels"] = [];
  for (const { table } of isOwnRelease ? models : []) {
    readModels.push({ table, ...(await countRows(pool, table)) });
  }
  const quarantined = await listQuarantinedStreams(client, pool, positionsByRole.projectors);
  const releases = {
    isFilled: await isFilled(pool, READ_MODEL_SCHEMA),
    otherReadModels: await listOtherReadModels(pool),
  };
  const { node, icu, tz } = process.versions;
  const rest = { blockingSessions: await findBlockingSessions(pool), runtime: { node, icu, tz } };
  return { differentLog, isOwnRelease, ...releases, followers, webhooks, readModels, quarantined, ...rest };
}

function findProcesses(role: LogRole | "webhooks", statuses: readonly ProcessStatus[], now: number): RoleProcesses {
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

async function listQuarantinedStreams(
  client: EventStoreDBClient,
  pool: pg.Pool,
  position: bigint,
): Promise<QuarantinedStatus[]> {
  const { streams } = await readQuarantineDecisions(client);
  const quarantinedStreams = await readQuarantinedStreams(pool, READ_MODEL_SCHEMA);
  const decidedStatuses = [...streams.values()].map((stream): QuarantinedStatus => {
    const events = quarantinedStreams.get(stream.stream)?.events ?? 0n;
    return { ...stream, events, state: events === 0n && stream.position <= position ? "taken" : "quarantined" };
  });
  const automaticStatuses = [...quarantinedStreams]
    .filter(([stream]) => !streams.has(stream))
    .map(([stream, { clinicId: _, ...values }]): QuarantinedStatus => ({ stream, ...values, state: "quarantined" }));
  return [...decidedStatuses, ...automaticStatuses, ...(await listUnsentStreams(pool))];
}

const MAX_UNSENT_STREAMS = 100;

async function listUnsentStreams(pool: pg.Pool): Promise<QuarantinedStatus[]> {
  const { rows } = await pool.query<Omit<QuarantinedStatus, "state">>(
    `SELECT DISTINCT ON (stream) stream, revision, position, event_type AS "eventType", cause, rfc3339(since) AS since,
            count(*) OVER (PARTITION BY stream) AS events
       FROM webhooks.quarantined_event ORDER BY stream, position LIMIT ${MAX_UNSENT_STREAMS}`,
  );
  return rows.map((row) => ({ ...row, state: "unsent" }));
}
