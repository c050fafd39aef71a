import { formatCommandLine, suggestNext } from "../../shared/command-line/format-command-line.ts";
import { formatCount } from "../../shared/command-line/format-count.ts";
import { createStyle, type Style } from "../../shared/command-line/style.ts";
import { readModels } from "../read-models/all.ts";
import {
  type FollowerStatus,
  findStatus,
  type QuarantinedStatus,
  type RoleProcesses,
  type Status,
} from "../status/find-status.ts";
import { formatLag, type Lag } from "../status/lag.ts";
import { MAX_COUNTED_DELIVERIES } from "../status/measure-deliveries.ts";
import type { CommandContext } from "./command-context.ts";

/** Shows the state of projectors, relay, webhooks and quarantined streams. @returns the exit code */
export async function showStatus(
  { client, pool, terminal, now }: CommandContext,
  { json }: { json: boolean },
): Promise<number> {
  const status = await findStatus({ client, pool, models: readModels }, now);
  if (json) {
    const replacer = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);
    await terminal.writeOutput(JSON.stringify(status, replacer, 2));
    return 0;
  }
  for (const line of formatStatus(status, now, createStyle(terminal))) await terminal.writeOutput(line);
  const [quarantinedStream] = status.quarantined;
  const next = quarantinedStream ? `resume ${quarantinedStream.position} --reason …` : "verify";
  await suggestNext(terminal, json, `projection ${next}`);
  return 0;
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
  const {
    differentLog,
    isOwnRelease,
    isFilled,
    otherReadModels,
    followers,
    webhooks,
    readModels,
    quarantined,
    blockingSessions,
    runtime,
  } = status;
  const tableTexts = readModels.map(({ table, rows, exact }) => `${table} ${exact ? "" : "~"}${rows}`);
  return [
    ...(differentLog === null ? [] : [differentLog, ""]),
    ...followers.flatMap((follower) => [...formatFollower(follower, now), ""]),
    ...formatWebhooks(webhooks, now, style),
    "",
    ...(isOwnRelease
      ? ["rows in the read models, as of the position of the projectors:", ...formatColumns(tableTexts, 4)]
      : ["The read models belong to another release. Run that release, or run `rebuild` with this release."]),
    ...(isFilled ? [] : ["The read models are not filled yet. The projectors are filling them, or must be started."]),
    ...(otherReadModels.length === 0
      ? []
      : [`read models of other releases: ${otherReadModels.join(", ")}; \`prune\` drops them`]),
    "",
    quarantined.length === 0 ? "quarantined streams: none" : `quarantined streams: ${quarantined.length}`,
    ...quarantined.flatMap(formatQuarantinedStream),
    ...blockingSessions.map(
      ({ pid, user, application, seconds }) =>
        `blocked for ${Math.round(seconds)} s by the session of user ${user} (${application || "no application name"}); SELECT pg_terminate_backend(${pid}) ends it`,
    ),
    `runtime: Node.js ${runtime.node}, ICU ${runtime.icu}, time zone data ${runtime.tz}`,
  ];
}

function formatFollower(follower: FollowerStatus, now: number): string[] {
  const { role, position, lag, process } = follower;
  const eventsPerSecond = process?.eventsPerSecond;
  return [
    ROLE_TITLES[role],
    `  position     ${position}  ${formatDistance(lag)}`,
    `  process      ${formatProcess(follower, now)}`,
    `  rate         ${eventsPerSecond === null || eventsPerSecond === undefined ? "unknown" : `${eventsPerSecond.toFixed(1)} events/s`}`,
    formatLastError(follower, now),
    ...(process?.state === "failed" && process.failedAt
      ? [
          `  to continue  run a release that can process the event, or: ${formatCommandLine(`projection quarantine ${process.failedAt.position} --reason …`)}`,
        ]
      : []),
  ];
}

function formatDistance(lag: Lag | null): string {
  return lag === null ? "belongs to a different log" : (formatLag(lag) ?? "up to date");
}

function formatLastError({ process }: RoleProcesses, now: number): string {
  const error = process?.lastError;
  return `  last error   ${error ? `${formatDuration(now - error.at)} ago: ${error.message}` : "none"}`;
}

/** One process adds deliveries, and any number of processes send them at the same time. */
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

function formatQuarantinedStream(quarantinedStatus: QuarantinedStatus): string[] {
  const { stream, revision, position, events, state, eventType, cause, actor, since, reason } = quarantinedStatus;
  const notes = {
    quarantined: `${formatCount(events, "event")} skipped`,
    taken: `the read models include the stream; to end the quarantine, run: ${formatCommandLine(`projection resume ${position}`)}`,
  };
  const firstLine = `  position ${position}, stream ${stream}, from revision ${revision} on: ${notes[state]}`;
  const actorText = actor === undefined ? "automatically" : `by ${actor}`;
  const reasonText = reason === undefined ? "" : `: ${reason}`;
  return [firstLine, `    ${eventType}: ${cause}`, `    quarantined ${actorText} at ${since}${reasonText}`];
}

function formatColumns(texts: readonly string[], columnCount: number): string[] {
  const width = Math.max(...texts.map(({ length }) => length)) + 3;
  const lines: string[] = [];
  for (let start = 0; start < texts.length; start += columnCount) {
    const cells = texts.slice(start, start + columnCount).map((text) => text.padEnd(width));
    lines.push(`  ${cells.join("")}`.trimEnd());
  }
  return lines;
}

function formatDuration(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
