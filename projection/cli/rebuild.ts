import { EXIT_CODE } from "../../shared/command-line/failure.ts";
import { suggestNext } from "../../shared/command-line/format-command-line.ts";
import { formatCount } from "../../shared/command-line/format-count.ts";
import { showProgress, type Terminal } from "../../shared/command-line/terminal.ts";
import { readLogEnd } from "../../shared/eventstore/read-log.ts";
import type { DataKeys } from "../../shared/personal-data/data-keys.ts";
import type { Logger } from "../../shared/runtime/logger.ts";
import { adoptLog } from "../adoption/adopt-log.ts";
import type { LogAndDatabase } from "../checkpoints/same-log.ts";
import type { ProjectionProgress } from "../engine/projection-options.ts";
import { listOtherReadModels, pruneReadModels, scrub } from "../engine/prune.ts";
import type { ReadLog } from "../engine/read-log.ts";
import { rebuild } from "../engine/rebuild.ts";
import { verify } from "../engine/verify.ts";
import { readModels } from "../read-models/all.ts";
import type { NatsSettings } from "../relay/nats-settings.ts";

export interface CommandContext extends LogAndDatabase {
  /** Keys of personal data. The first use reads PERSONAL_DATA_KEYS. */
  dataKeys: DataKeys;
  /** Log reader for commands that read the whole log. If absent, the calling thread reads it. */
  readLog?: ReadLog;
  logger: Logger;
  terminal: Terminal;
  databaseUrl: string;
  /** Milliseconds since 1970. */
  now: number;
  signal: AbortSignal;
}

async function reportInterruption(
  { terminal }: CommandContext,
  advice = "Run the command again to continue.",
): Promise<number> {
  await terminal.writeOutput(`Interrupted. ${advice}`);
  return EXIT_CODE.interrupted;
}

/**
 * Rebuilds all read models, and prints the progress.
 *
 * @returns the exit code
 */
export async function rebuildReadModels(context: CommandContext): Promise<number> {
  const { terminal, signal } = context;
  const startedAt = performance.now();
  const onProgress = await showProgressOf(context);
  const swapPosition = await rebuild({ ...context, models: readModels, onProgress }, signal);
  if (swapPosition === undefined)
    return reportInterruption(context, "The current read models stay in use. The next rebuild continues from here.");
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(1);
  await terminal.writeOutput(`Rebuilt in ${seconds} s. The new read models are in use from position ${swapPosition}.`);
  return 0;
}

/**
 * Adopts the connected event log for this database, and prints the effects on webhooks.
 *
 * @param notifyFrom milliseconds since 1970. If set, partners receive all events that the log stored at or after this
 *   time. See {@link adoptLog}
 * @returns the exit code
 * @throws {CommandRefusedError} if the database was built from this log
 */
export async function adoptCurrentLog(
  context: CommandContext,
  nats: NatsSettings,
  notifyFrom: number | undefined,
): Promise<number> {
  const { terminal, signal } = context;
  const onProgress = await showProgressOf(context);
  const adoption = await adoptLog({ ...context, nats, models: readModels, onProgress, notifyFrom }, signal);
  if (!adoption) return reportInterruption(context);
  const { position, deliveryPosition, cancelledDeliveryCount } = adoption;
  await terminal.writeOutput(
    `Adopted. The read models were rebuilt from this log and are in use from position ${position}.`,
  );
  await terminal.writeOutput(
    `Webhooks continue after position ${deliveryPosition}. Those for earlier events are not sent again.`,
  );
  await terminal.writeOutput(
    `The log does not hold the events of ${cancelledDeliveryCount} pending deliveries. They were cancelled.`,
  );
  await terminal.writeOutput("The projection processes continue within seconds.");
  return 0;
}

/**
 * Compares the read models with the log.
 *
 * @param options.json if true, prints a line of JSON for each differing row and quarantined stream, and a line with the
 *   totals
 * @returns the exit code: 1 if rows differ
 */
export async function verifyReadModels(context: CommandContext, { json }: { json: boolean }): Promise<number> {
  const { terminal, signal } = context;
  const { position, rows, differenceCount, quarantinedStreams } = await verify(
    {
      ...context,
      models: readModels,
      onProgress: await showProgressOf(context),
      onDifference: (difference) => {
        const { table, key, kind, columns } = difference;
        if (json) return void terminal.writeOutput(JSON.stringify(difference));
        const columnsText = columns.length > 0 ? `: ${columns.join(", ")}` : "";
        void terminal.writeOutput(`${kind} ${table} ${key.join(" ")}${columnsText}`);
      },
    },
    signal,
  );
  if (signal.aborted) {
    await terminal.writeError("Interrupted.");
    return EXIT_CODE.interrupted;
  }
  for (const [stream, { revision, cause }] of quarantinedStreams)
    await terminal.writeOutput(
      json
        ? JSON.stringify({ quarantined: stream, revision: String(revision), cause })
        : `quarantined ${stream} from revision ${revision} on: ${cause}`,
    );
  const exitCode = differenceCount === 0 ? EXIT_CODE.done : EXIT_CODE.failed;
  if (json) {
    await terminal.writeOutput(JSON.stringify({ rows, position: String(position), differing: differenceCount }));
    return exitCode;
  }
  const skippedText =
    quarantinedStreams.size === 0 ? "" : `, not counting ${formatCount(quarantinedStreams.size, "quarantined stream")}`;
  await terminal.writeOutput(
    `${formatCount(rows, "row")} compared at position ${position}${skippedText}: ${differenceCount} differ`,
  );
  await suggestNext(terminal, json, `projection ${differenceCount === 0 ? "status" : "rebuild"}`);
  return exitCode;
}

async function showProgressOf({ client, terminal }: CommandContext) {
  return createProgressReporter((text) => showProgress(terminal, text), await readLogEnd(client));
}

const PROGRESS_INTERVAL_MS = 1_000;

/**
 * Minimum progress for an estimate of the remaining time. With less progress, one slow moment would dominate the
 * estimate.
 */
const MIN_ESTIMATE_BASIS = { seconds: 3, share: 0.01 };

/**
 * Creates a progress reporter for a projection run. Once a second, it shows the processed share of the log, the events
 * per second and the estimated remaining time.
 *
 * @param logEnd position of the last event in the log
 * @param clock milliseconds; only differences matter
 */
export function createProgressReporter(
  showText: (text: string) => void,
  logEnd: bigint,
  clock = () => performance.now(),
): (progress: Pick<ProjectionProgress, "lastReadPosition" | "eventCount" | "waitsFor">) => void {
  const startedAt = clock();
  let firstProgress: { share: number; eventCount: number } | undefined;
  let reportedAt = startedAt;
  return ({ lastReadPosition, eventCount, waitsFor }) => {
    const share = computeShare(lastReadPosition, logEnd);
    firstProgress ??= { share, eventCount };
    const now = clock();
    if (now - reportedAt < PROGRESS_INTERVAL_MS) return;
    reportedAt = now;
    const elapsedSeconds = (now - startedAt) / 1000;
    const eventsPerSecond = Math.round((eventCount - firstProgress.eventCount) / elapsedSeconds);
    const timeLeftText = formatTimeLeft(share - firstProgress.share, 1 - share, elapsedSeconds);
    const waitText = waitsFor === null ? "" : `, waiting for ${waitsFor}`;
    showText(`${(share * 100).toFixed(1)} % of the log, ${eventsPerSecond} events/s${timeLeftText}${waitText}`);
  };
}

/** Returns the processed share, 0 to 1. A run starts at position -1, and live events may be beyond `logEnd`. */
function computeShare(lastReadPosition: bigint, logEnd: bigint): number {
  if (logEnd <= 0n) return 1;
  return Math.min(1, Math.max(0, Number(lastReadPosition) / Number(logEnd)));
}

/** @returns an empty string if there is too little progress for an estimate */
function formatTimeLeft(doneShare: number, remainingShare: number, elapsedSeconds: number): string {
  if (elapsedSeconds < MIN_ESTIMATE_BASIS.seconds || doneShare < MIN_ESTIMATE_BASIS.share) return "";
  const secondsLeft = Math.round((remainingShare / doneShare) * elapsedSeconds);
  return secondsLeft < 120 ? `, ${secondsLeft} s left` : `, ${Math.round(secondsLeft / 60)} min left`;
}

/**
 * Drops the read models of other releases, and prints their schemas.
 *
 * @returns the exit code
 */
export async function pruneOtherReadModels(context: CommandContext): Promise<number> {
  const { pool, terminal, signal } = context;
  const schemas = await pruneReadModels(pool, signal);
  if (signal.aborted) return reportInterruption(context);
  for (const schema of schemas) await terminal.writeOutput(`Dropped ${schema}.`);
  if (schemas.length === 0) await terminal.writeOutput("There are no read models of other releases.");
  return 0;
}

/** Removes obsolete row versions with erased data from Postgres's files. @returns the exit code */
export async function scrubTables(context: CommandContext): Promise<number> {
  const { pool, terminal, signal } = context;
  await scrub(pool, readModels, signal, (table) => void terminal.writeOutput(`Rewrote ${table}.`));
  if (signal.aborted) return reportInterruption(context);
  for (const schema of await listOtherReadModels(pool)) {
    await terminal.writeOutput(
      `Kept ${schema}, the read models of another release, which may contain erased data. See prune.`,
    );
  }
  return 0;
}
