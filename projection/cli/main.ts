/** The operator's commands for the read models: `npm run projection -- status | rebuild | verify | park | resume`. */
import os from "node:os";
import { Command, InvalidArgumentError } from "commander";
import type pg from "pg";
import { parseRfc3339 } from "../../shared/domain/time/rfc3339.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { requireEventStore } from "../../shared/eventstore/reach.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { ConfigError, readConfig } from "../../shared/runtime/config.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { DifferentLog } from "../checkpoints/same-log.ts";
import { ActRefused } from "../parking/parking-acts.ts";
import { ProjectionFailure } from "../roles/failure.ts";
import { adoptCurrentLog } from "./adopt-log.ts";
import type { CommandContext, Terminal } from "./command.ts";
import { type ActOptions, park, resume } from "./parking.ts";
import { rebuildReadModels } from "./rebuild.ts";
import { showStatus } from "./status.ts";
import { verifyReadModels } from "./verify.ts";

// Whoever reads it may have seen enough, as `head` has.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 2));

const terminal: Terminal = {
  out: (line) => process.stdout.write(`${line}\n`),
  progress: (text) => process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text}` : `${text}\n`),
};

const program = new Command("projection")
  .description("Read models: how far they are, building them anew, comparing them with the log.")
  .showHelpAfterError();
program
  .command("status")
  .description("How far the read models and the relay are in the log, how they do, and what is parked.")
  .option("--json", "as JSON")
  .action((options: { json?: boolean }) =>
    run((context) => showStatus(context, { json: options.json === true })),
  );
program
  .command("rebuild")
  .description(
    "Build all read models anew from the log, beside those that serve, and put them in their place when they have caught up.",
  )
  .option(
    "--adopt-log",
    "continue with a log that is not the one behind the database: it was replaced, or restored from an older backup",
  )
  .option(
    "--tell-since <date-time>",
    "with --adopt-log: also send the webhooks of events that the log stored since then",
    toTime,
  )
  .action(({ adoptLog, tellSince }: { adoptLog?: boolean; tellSince?: number }) =>
    run((context) => {
      if (adoptLog)
        return adoptCurrentLog(context, readConfig(["NATS_URL"], process.env).NATS_URL, tellSince);
      if (tellSince === undefined) return rebuildReadModels(context);
      throw new ActRefused("--tell-since needs --adopt-log");
    }),
  );
program
  .command("verify")
  .description("Compare the read models that serve with what the log says; every row that differs is named.")
  .action(() => run(verifyReadModels));
act(
  "park",
  "Pass over the stream of the event that projectors or relay stopped at, from that event on.",
  park,
);
act(
  "resume",
  "Take a parked stream back: where events of it were passed over, after a rebuild that has them.",
  resume,
);

await program.parseAsync();

function act(
  name: string,
  description: string,
  work: (context: CommandContext, position: bigint, options: ActOptions) => Promise<number>,
): void {
  program
    .command(name)
    .description(description)
    .argument("<position>", "of the event, as status names it", toPosition)
    .requiredOption("--reason <text>", "why; it is kept in the log")
    .option("--actor <name>", "who; kept in the log", os.userInfo().username)
    .action((position: bigint, options: ActOptions) => run((context) => work(context, position, options)));
}

function toTime(text: string): number {
  const time = parseRfc3339(text);
  if (time === undefined) {
    throw new InvalidArgumentError("It must be a date-time with an offset, like 2026-03-01T08:00:00Z.");
  }
  return time;
}

function toPosition(text: string): bigint {
  if (!/^\d{1,20}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return BigInt(text);
}

/** Exit codes: 0 done, 1 differences or an event that cannot be taken, 2 nothing to work with, or a different log. */
async function run(work: (context: CommandContext) => Promise<number>): Promise<void> {
  try {
    process.exitCode = await withServers(work);
  } catch (error) {
    const known = [ConfigError, StartError, ProjectionFailure, ActRefused, DifferentLog].some(
      (type) => error instanceof type,
    );
    process.stderr.write(`\nprojection: ${known ? (error as Error).message : String(error)}\n`);
    process.exitCode = error instanceof ProjectionFailure || error instanceof ActRefused ? 1 : 2;
  }
}

async function withServers(work: (context: CommandContext) => Promise<number>): Promise<number> {
  const { EVENTSTORE_URL, DATABASE_URL } = readConfig(["EVENTSTORE_URL", "DATABASE_URL"], process.env);
  const logger = createLogger("projection-cli", "error");
  const client = connectEventStore(EVENTSTORE_URL, "projection-cli");
  const pool = createPool({
    url: DATABASE_URL,
    applicationName: "projection-cli",
    size: 4,
    statementTimeout: 60_000,
    logger,
  });
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());
  try {
    await requireEventStore(client, EVENTSTORE_URL);
    await requirePrepared(pool);
    const { signal } = interrupted;
    const context = { client, pool, logger, terminal, databaseUrl: DATABASE_URL };
    return await work({ ...context, now: Date.now(), signal });
  } finally {
    await Promise.all([pool.end(), client.dispose()]);
  }
}

/** @throws {StartError} if this release's projection service has never run on the database */
async function requirePrepared(pool: pg.Pool): Promise<void> {
  const { rows } = await pool.query<{ prepared: bigint }>(
    `SELECT count(*) AS prepared FROM pg_attribute
      WHERE attrelid IN (to_regclass('read_model.checkpoint'), to_regclass('webhooks.relay_checkpoint'))
        AND attname = 'anchor_event_id'`,
  );
  if (rows[0]?.prepared === 2n) return;
  throw new StartError(
    "The database is not prepared for this release. Start this release's projection service first: it prepares the database.",
  );
}
