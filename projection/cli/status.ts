import { readModels } from "../read-models/all.ts";
import { MAX_COUNT } from "../status/count-deliveries.ts";
import {
  type FollowerStatus,
  findStatus,
  type ParkedStatus,
  type RoleProcesses,
  type Status,
} from "../status/find-status.ts";
import type { Lag } from "../status/lag.ts";
import type { CommandContext } from "./command.ts";

/** Shows the state of projectors, relay, webhooks and parked streams. @returns the exit code */
export async function showStatus(
  { client, pool, terminal, now }: CommandContext,
  { json }: { json: boolean },
): Promise<number> {
  const status = await findStatus({ client, pool, models: readModels }, now);
  if (json) {
    const plain = (_: string, value: unknown) => (typeof value === "bigint" ? String(value) : value);
    terminal.out(JSON.stringify(status, plain, 2));
  } else for (const line of lines(status, now)) terminal.out(line);
  return 0;
}

const TITLES = {
  projectors: "projectors: update all read models",
  relay: "relay: sends events to the webhooks role",
};

const STATES = {
  starting: "is starting",
  running: "leads",
  failed: "stopped",
  standby: "is on standby",
  stopped: "was shut down",
};

function lines(status: Status, now: number): string[] {
  const { differentLog, ownRelease, followers, webhooks, readModels, parked } = status;
  const tables = readModels.map(({ table, rows, exact }) => `${table} ${exact ? "" : "~"}${rows}`);
  return [
    ...(differentLog === null ? [] : [differentLog, ""]),
    ...followers.flatMap((follower) => [...followerLines(follower, now), ""]),
    ...webhooksLines(webhooks, now),
    "",
    ...(ownRelease
      ? ["rows in the read models, as of the position of the projectors:", ...inColumns(tables, 4)]
      : ["The read models belong to another release. Run that release, or run `rebuild` with this one."]),
    "",
    parked.length === 0 ? "parked streams: none" : `parked streams: ${parked.length}`,
    ...parked.flatMap(parkedLines),
  ];
}

function followerLines(follower: FollowerStatus, now: number): string[] {
  const { role, position, lag, process } = follower;
  const rate = process?.eventsPerSecond;
  return [
    TITLES[role],
    `  position     ${position}  ${behindText(lag)}`,
    `  process      ${processText(follower, now)}`,
    `  rate         ${rate === null || rate === undefined ? "unknown" : `${rate.toFixed(1)} events/s`}`,
    lastErrorLine(follower, now),
    ...(process?.state === "failed" && process.failedAt
      ? [
          `  to continue  run a release that can process the event, or: npm run projection -- park ${process.failedAt.position} --reason …`,
        ]
      : []),
  ];
}

function behindText(lag: Lag | null): string {
  if (lag === null) return "belongs to a different log";
  const { events, exact, seconds } = lag;
  if (events === 0) return "up to date";
  return `${exact ? "" : "about "}${events} events and ${seconds.toFixed(1)} s behind`;
}

function lastErrorLine({ process }: RoleProcesses, now: number): string {
  const error = process?.lastError;
  return `  last error   ${error ? `${ago(now - error.at)} ago: ${error.message}` : "none"}`;
}

/** Any number of processes send webhooks. None of them leads. */
function webhooksLines(webhooks: Status["webhooks"], now: number): string[] {
  const { process, alive, working } = webhooks;
  const counts = (["pending", "due", "failed"] as const).map((state) => {
    const count = webhooks[state];
    return `${count >= MAX_COUNT ? "at least " : ""}${count} ${state}`;
  });
  const more = working > 1 ? `, ${working - 1} more running` : "";
  const runs = process && alive && process.state === "running";
  const waits = process?.detail ? `: ${process.detail}` : "";
  return [
    "webhooks: sends deliveries to partners",
    `  deliveries   ${counts.join(", ")}`,
    `  process      ${runs ? `${process.process} is running${waits}${more}` : processText(webhooks, now)}`,
    lastErrorLine(webhooks, now),
  ];
}

function processText({ process, alive, standby }: RoleProcesses, now: number): string {
  if (!process) return "none was ever started";
  const others = standby > (process.state === "standby" ? 1 : 0) ? `, ${standby} more on standby` : "";
  if (!alive)
    return `none is running; ${process.process} was last seen ${ago(now - process.at)} ago (${process.state})`;
  const why = process.detail ?? (process.state === "failed" ? process.lastError?.message : null);
  return `${process.process} ${STATES[process.state]}${why ? `: ${why}` : ""}${others}`;
}

function parkedLines(parked: ParkedStatus): string[] {
  const { stream, revision, position, events, state, eventType, cause, actor, since, reason } = parked;
  const notes = {
    parked: `${events} events skipped`,
    untold: "partners get no webhooks for it; the read models include it",
    resumed: `${events} events skipped; it was resumed; to include them, run: npm run projection -- rebuild`,
    taken: `the read models include it; to take it off this list, run: npm run projection -- resume ${position}`,
  };
  const first = `  position ${position}, stream ${stream}, from revision ${revision} on: ${notes[state]}`;
  return eventType === undefined
    ? [first]
    : [first, `    ${eventType}: ${cause}`, `    parked by ${actor} at ${since}: ${reason}`];
}

function inColumns(texts: readonly string[], columns: number): string[] {
  const width = Math.max(...texts.map(({ length }) => length)) + 3;
  return texts.flatMap((_, index) =>
    index % columns === 0
      ? [
          `  ${texts
            .slice(index, index + columns)
            .map((text) => text.padEnd(width))
            .join("")}`.trimEnd(),
        ]
      : [],
  );
}

function ago(milliseconds: number): string {
  const seconds = Math.max(0, Math.round(milliseconds / 1000));
  return seconds < 120 ? `${seconds} s` : `${Math.round(seconds / 60)} min`;
}
