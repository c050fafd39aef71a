import { formatCommandLine, suggestNext } from "../../shared/command-line/format-command-line.ts";
import { formatCount } from "../../shared/command-line/format-count.ts";
import { createStyle, type Style } from "../../shared/command-line/style.ts";
import { readLogEnd } from "../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { isFilled, readCheckpoint } from "../checkpoints/checkpoint.ts";
import { findLogDifference, type LogAndDatabase, requireSameLog } from "../checkpoints/same-log.ts";
import { readWebhookCheckpoint } from "../checkpoints/webhook-checkpoints.ts";
import { computeFingerprint } from "../engine/ddl.ts";
import { listOtherReadModels } from "../engine/prune.ts";
import { readQuarantinedStreams } from "../quarantine/quarantined-streams.ts";
import { readModels } from "../read-models/all.ts";
import { type ProcessStatus, readProcessStatuses } from "../roles/process-status.ts";
import type { LogRole } from "../roles/role.ts";
import { countDeliveries, findBlockingSessions, findEventsAside, MAX_COUNTED_DELIVERIES } from "../status/facts.ts";
import { type Lag, LagMeter } from "../status/lag.ts";
import type { CommandContext } from "./rebuild.ts";

/** Shows the state of projectors, relay, webhooks and quarantined streams. @returns the exit code */
export async function showStatus(
  { client, pool, terminal, now }: CommandContext,
  { json }: { json: boolean },
): Promise<number> {
  const status = await findStatus({ client, pool }, now);
  if (json) {
    const replacer = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);
    await terminal.writeOutput(JSON.stringify(status, replacer, 2));
    return 0;
  }
  for (const line of formatStatus(status, now, createStyle(terminal))) await terminal.writeOutput(line);
  await suggestNext(terminal, json, `projection ${status.quarantined.length > 0 ? "rebuild" : "verify"}`);
  return 0;
}

type Status = Awaited<ReturnType<typeof findStatus>>;

/** @param now milliseconds since 1970 */
async function findStatus({ client, pool }: LogAndDatabase, now: number) {
  const statuses = await readProcessStatuses(pool);
  const logEnd = await readLogEnd(client);
  const checkpoint = await readCheckpoint(pool, READ_MODEL_SCHEMA);
  const differentLog = (await findLogDifference(requireSameLog({ client, pool })))?.message ?? null;
  const findRole = async (role: LogRole, { position }: { position: bigint }) => ({
    ...{ role, position, ...findProcesses(role, statuses, now) },
    /** Null if the log does not match the database, because positions of different logs cannot be compared. */
    lag: differentLog === null ? await new LagMeter(client).measure(position, logEnd, now) : null,
  });
  const { node, icu, tz } = process.versions;
  return {
    /** Error message if the database was built from another log. */
    differentLog,
    isOwnRelease: checkpoint.fingerprint === computeFingerprint(readModels),
    /** True if the read models have ever reached the end of the log. */
    isFilled: await isFilled(pool, READ_MODEL_SCHEMA),
    otherReadModels: await listOtherReadModels(pool),
    followers: [
      await findRole("projectors", checkpoint),
      await findRole("relay", await readWebhookCheckpoint(pool, "messages")),
    ],
    webhooks: {
      ...(await findRole("webhooks", await readWebhookCheckpoint(pool, "deliveries"))),
      ...(await countDeliveries(pool, now)),
      ...(await findEventsAside(pool)),
    },
    quarantined: Array.from(await readQuarantinedStreams(pool, READ_MODEL_SCHEMA), ([stream, values]) => ({
      stream,
      ...values,
    })),
    blockingSessions: await findBlockingSessions(pool),
    /** Versions of Node.js, ICU and time zone data in the process of this command. */
    runtime: { node, icu, tz },
  };
}

interface RoleProcesses {
  /**
   * Status of a running process; otherwise, of a starting, failed or standby process, in this order. If no process is
   * alive, status of the process that reported last. Undefined if no process ever reported.
   */
  process: ProcessStatus | undefined;
  /** True if a process of the role has reported recently, see `ALIVE_TIMEOUT_MS`. */
  alive: boolean;
  working: number;
  standby: number;
}

/** A process that has not reported for this time counts as dead. Processes report every two seconds. */
const ALIVE_TIMEOUT_MS = 10_000;

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

const ROLE_TITLES = {
  projectors: "projectors: update all read models",
  relay: "relay: publishes events in NATS",
  webhooks: "webhooks: sends deliveries to partners",
};

const STATE_TEXTS = {
  starting: "is starting",
  running: "leads",
  failed: "stopped",
  standby: "is on standby",
  stopped: "was shut down",
};

function formatStatus(status: Status, now: number, style: Style): string[] {
  const { differentLog, otherReadModels, quarantined, runtime } = status;
  const lines = differentLog === null ? [] : [differentLog, ""];
  for (const follower of status.followers) lines.push(...formatFollower(follower, now), "");
  lines.push(...formatWebhooks(status.webhooks, now, style), "");
  if (!status.isOwnRelease)
    lines.push("The read models belong to another release. Run that release, or run `rebuild` with this release.");
  if (!status.isFilled)
    lines.push("The read models are not filled yet. The projectors are filling them, or must be started.");
  if (otherReadModels.length > 0)
    lines.push(`read models of other releases: ${otherReadModels.join(", ")}; \`prune\` drops them`);
  lines.push(`quarantined streams: ${quarantined.length === 0 ? "none" : quarantined.length}`);
  for (const { stream, revision, position, events, eventType, cause, since } of quarantined)
    lines.push(
      `  position ${position}, stream ${stream}, from revision ${revision} on: ${formatCount(events, "event")} skipped`,
      `    ${eventType}: ${cause}`,
      `    quarantined at ${since}`,
    );
  for (const { pid, user, application, seconds } of status.blockingSessions)
    lines.push(
      `blocked for ${Math.round(seconds)} s by the session of user ${user} (${application || "no application name"}); SELECT pg_terminate_backend(${pid}) ends it`,
    );
  lines.push(`runtime: Node.js ${runtime.node}, ICU ${runtime.icu}, time zone data ${runtime.tz}`);
  return lines;
}

function formatFollower(follower: Status["followers"][number], now: number): string[] {
  const { role, position, lag, process } = follower;
  const lines = [
    ROLE_TITLES[role],
    `  position     ${position}  ${formatDistance(lag)}`,
    `  process      ${formatProcess(follower, now)}`,
    formatLastError(follower, now),
  ];
  if (process?.state === "failed" && process.failedAt) {
    const command = formatCommandLine(`projection quarantine ${process.failedAt.position} --reason …`);
    lines.push(`  to continue  run a release that can process the event, or: ${command}`);
  }
  return lines;
}

/** Describes how far a role is behind the log, such as "about 3000 events and 2 s behind". */
function formatDistance(lag: Lag | null): string {
  if (lag === null) return "belongs to a different log";
  const { events, exact, seconds } = lag;
  if (events === 0) return "up to date";
  return `${exact ? "" : "about "}${formatCount(events, "event")} and ${Math.round(seconds)} s behind`;
}

function formatLastError({ process }: RoleProcesses, now: number): string {
  const error = process?.lastError;
  return `  last error   ${error ? `${formatDuration(now - error.at)} ago: ${error.message}` : "none"}`;
}

/** Formats the status of the webhooks role, which several processes can run at the same time. */
function formatWebhooks(webhooks: Status["webhooks"], now: number, { red }: Style): string[] {
  const { process, alive, working } = webhooks;
  const countTexts = (["pending", "due", "failed"] as const).map((state) => {
    const count = webhooks[state];
    const text = `${count >= MAX_COUNTED_DELIVERIES ? "about " : ""}${count} ${state}`;
    return state === "failed" && count > 0 ? red(text) : text;
  });
  const runningText = working > 1 ? `, ${working - 1} more running` : "";
  const isRunning = process && alive && process.state === "running";
  const detailText = process?.detail ? `: ${process.detail}` : "";
  return [
    ROLE_TITLES.webhooks,
    `  position     ${webhooks.position}  ${formatDistance(webhooks.lag)}`,
    `  deliveries   ${countTexts.join(", ")}`,
    ...(webhooks.eventsAside > 0
      ? [`  set aside    ${formatCount(webhooks.eventsAside, "event")}: ${webhooks.asideCause}`]
      : []),
    `  process      ${isRunning ? `${process.process} is running${detailText}${runningText}` : formatProcess(webhooks, now)}`,
    formatLastError(webhooks, now),
  ];
}

function formatProcess({ process, alive, standby }: RoleProcesses, now: number): string {
  if (!process) return "no process was ever started";
  const standbyText = standby > (process.state === "standby" ? 1 : 0) ? `, ${standby} more on standby` : "";
  if (!alive)
    return `no process is running; ${process.process} was last seen ${formatDuration(now - process.at)} ago (${process.state})`;
  const reason = process.detail ?? (process.state === "failed" ? process.lastError?.message : null);
  return `${process.process} ${STATE_TEXTS[process.state]}${reason ? `: ${reason}` : ""}${standbyText}`;
}

function formatDuration(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
