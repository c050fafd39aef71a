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

/** Tells how the read models and the relay are. @returns the exit code */
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
  projectors: "projectors: keep all read models, in one run with one checkpoint",
  relay: "relay: tells public events to the webhook dispatchers",
};

const STATES = {
  starting: "starts",
  running: "leads",
  failed: "stopped",
  standby: "stands by",
  stopped: "was stopped",
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
      ? ["rows in the read models, all of them as of the projectors' position:", ...inColumns(tables, 4)]
      : ["The read models belong to another release: run that release, or `rebuild` with this one."]),
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
          `  to go on     run a release that can take the event, or: npm run projection -- park ${process.failedAt.position} --reason …`,
        ]
      : []),
  ];
}

function behindText(lag: Lag | null): string {
  if (lag === null) return "of another log";
  const { events, exact, seconds } = lag;
  if (events === 0) return "up to date";
  return `${exact ? "" : "about "}${events} events and ${seconds.toFixed(1)} s behind`;
}

function lastErrorLine({ process }: RoleProcesses, now: number): string {
  const error = process?.lastError;
  return `  last error   ${error ? `${ago(now - error.at)} ago: ${error.message}` : "none"}`;
}

/** Any number of processes send webhooks; none of them leads. */
function webhooksLines(webhooks: Status["webhooks"], now: number): string[] {
  const { process, alive, working } = webhooks;
  const counts = (["pending", "due", "failed"] as const).map((state) => {
    const count = webhooks[state];
    return `${count >= MAX_COUNT ? "at least " : ""}${count} ${state}`;
  });
  const more = working > 1 ? `, ${working - 1} more run` : "";
  const runs = process && alive && process.state === "running";
  const waits = process?.detail ? `: ${process.detail}` : "";
  return [
    "webhooks: sends deliveries to partners",
    `  deliveries   ${counts.join(", ")}`,
    `  process      ${runs ? `${process.process} runs${waits}${more}` : processText(webhooks, now)}`,
    lastErrorLine(webhooks, now),
  ];
}

function processText({ process, alive, standby }: RoleProcesses, now: number): string {
  if (!process) return "none has ever run here";
  const others = standby > (process.state === "standby" ? 1 : 0) ? `, ${standby} more on standby` : "";
  if (!alive)
    return `none runs; ${process.process} was last seen ${ago(now - process.at)} ago (${process.state})`;
  const why = process.detail ?? (process.state === "failed" ? process.lastError?.message : null);
  return `${process.process} ${STATES[process.state]}${why ? `: ${why}` : ""}${others}`;
}

function parkedLines(parked: ParkedStatus): string[] {
  const { stream, revision, position, events, state, eventType, cause, actor, since, reason } = parked;
  const notes = {
    parked: `${events} events passed over`,
    untold: "partners are told nothing of it; the read models have it",
    resumed: `${events} events passed over; it was resumed: npm run projection -- rebuild brings them in`,
    taken: `the read models have it all the same: npm run projection -- resume ${position} takes it off the list`,
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
