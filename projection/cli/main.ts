/** The command line for operators of the read models and the database: `clinic projection <command> [options]`. */
import { Command, InvalidArgumentError } from "commander";
import type { Actor } from "../../shared/domain/events/metadata.ts";
import { parseRfc3339 } from "../../shared/domain/time/rfc3339.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { identifyOperator } from "../../shared/eventstore/identify-operator.ts";
import { requireEventStore } from "../../shared/eventstore/reach.ts";
import { createDataKeys, deferDataKeys } from "../../shared/personal-data/create-data-keys.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { ConfigError, readConfig } from "../../shared/runtime/config.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { DifferentLogError } from "../checkpoints/same-log.ts";
import { CommandRefusedError } from "../parking/parking-commands.ts";
import { NATS_SETTING_NAMES, toNatsSettings } from "../relay/nats-settings.ts";
import { requirePreparedDatabase } from "../require-prepared-database.ts";
import { ProjectionError } from "../roles/failure.ts";
import { adoptCurrentLog } from "./adopt-log.ts";
import type { CommandContext, Terminal } from "./command.ts";
import { migrateDatabase } from "./migrate.ts";
import { type ParkingOptions, park, resume } from "./parking.ts";
import { pruneOtherReadModels } from "./prune.ts";
import { rebuildReadModels } from "./rebuild.ts";
import { scrubTables } from "./scrub.ts";
import { showStatus } from "./status.ts";
import { verifyReadModels } from "./verify.ts";

// A program that reads the output, such as `head`, may close the pipe early.
process.stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 2));

const terminal: Terminal = {
  out: (line) => process.stdout.write(`${line}\n`),
  showProgress: (text) => process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text}` : `${text}\n`),
};

const program = new Command("clinic projection")
  .description(
    "Migrate the database, inspect, rebuild and verify the read models, and park event streams that stop the projection.",
  )
  .showHelpAfterError();
program
  .command("status")
  .description("Show the state of the projectors, relay and webhooks roles, and the parked streams.")
  .option("--json", "print JSON")
  .action((options: { json?: boolean }) =>
    runWithServers((context) => showStatus(context, { json: options.json === true })),
  );
program
  .command("migrate")
  .description(
    "Prepare the database for this release: apply new migrations, and create missing read models. Changes nothing if the database is prepared.",
  )
  .action(() =>
    runCommand(() => {
      const { DATABASE_URL } = readConfig(["DATABASE_URL"], process.env);
      return withDatabase(DATABASE_URL, (database) => migrateDatabase(database, terminal));
    }),
  );
program
  .command("rebuild")
  .description(
    "Rebuild all read models from the event log. The current read models stay in use until the new ones have caught up and replace them.",
  )
  .option(
    "--adopt-log",
    "continue with an event log that is not the one this database was built from, for example after a restore from an older backup, or after a loss of the database",
  )
  .option(
    "--tell-since <date-time>",
    "with --adopt-log: also send webhooks for the events stored in the log since this time",
    parseTime,
  )
  .action(({ adoptLog, tellSince: notifyFrom }: { adoptLog?: boolean; tellSince?: number }) =>
    runWithServers((context) => {
      if (adoptLog) {
        const nats = toNatsSettings(readConfig(NATS_SETTING_NAMES, process.env));
        return adoptCurrentLog(context, nats, notifyFrom);
      }
      if (notifyFrom === undefined) return rebuildReadModels(context);
      throw new CommandRefusedError("--tell-since requires --adopt-log.");
    }),
  );
program
  .command("verify")
  .description("Compare the read models with the event log, and list every row that differs.")
  .action(() => runWithServers(verifyReadModels));
program
  .command("prune")
  .description(
    "Drop the read models that other releases have built. Without them, a return to such a release needs to fill them again.",
  )
  .action(() => runWithServers(pruneOtherReadModels));
program
  .command("scrub")
  .description(
    "Rewrite the tables that held erased personal data, because Postgres keeps former row versions in its files. Each table is locked while it is rewritten. Run it after erasures.",
  )
  .action(() => runWithServers(scrubTables));
addParkingCommand(
  "park",
  "Park the stream of the event that stopped the projectors or the relay: skip this event and all later events of the stream.",
  park,
);
addParkingCommand(
  "resume",
  "Stop skipping a parked stream. If the read models lack events of the stream, they are rebuilt with these events first.",
  resume,
);

await program.parseAsync();

function addParkingCommand(
  name: string,
  description: string,
  run: (context: CommandContext, position: bigint, options: ParkingOptions) => Promise<number>,
): void {
  program
    .command(name)
    .description(description)
    .argument("<position>", "log position of the event, as `status` shows it", parsePosition)
    .requiredOption("--reason <text>", "reason, 1 to 200 characters, stored in the event log")
    .option(
      "--actor <name>",
      "your name, recorded with the event; a note if the event log knows you; default: your user name",
    )
    .action((position: bigint, { reason, actor: name }: { reason: string; actor?: string }) =>
      runWithServers((context) => run(context, position, { reason, actor: requireOperator(name) })),
    );
}

/** @throws {CommandRefusedError} if the name is missing or invalid */
function requireOperator(name: string | undefined): Actor {
  const operator = identifyOperator(readConfig(["EVENTSTORE_URL"], process.env).EVENTSTORE_URL, name);
  if ("problem" in operator) throw new CommandRefusedError(`${operator.problem}.`);
  return operator.actor;
}

function parseTime(text: string): number {
  const time = parseRfc3339(text);
  if (time === undefined) {
    throw new InvalidArgumentError("Give a date-time with an offset, for example 2026-03-01T08:00:00Z.");
  }
  return time;
}

function parsePosition(text: string): bigint {
  if (!/^\d{1,20}$/.test(text)) throw new InvalidArgumentError("Give a whole number.");
  return BigInt(text);
}

/**
 * Runs a command and sets the exit code:
 * - 0: success
 * - 1: rows differ, the command was refused or interrupted, or an event cannot be processed
 * - 2: any other error, such as a wrong configuration or an event log that does not match the database
 */
async function runCommand(run: () => Promise<number>): Promise<void> {
  try {
    process.exitCode = await run();
  } catch (error) {
    const isExpected = [ConfigError, StartError, ProjectionError, CommandRefusedError, DifferentLogError].some(
      (type) => error instanceof type,
    );
    process.stderr.write(`\nprojection: ${isExpected ? (error as Error).message : String(error)}\n`);
    process.exitCode = error instanceof ProjectionError || error instanceof CommandRefusedError ? 1 : 2;
  }
}

/** Runs a command that needs the event log and a prepared database. */
function runWithServers(run: (context: CommandContext) => Promise<number>): Promise<void> {
  return runCommand(() => {
    const { EVENTSTORE_URL, DATABASE_URL } = readConfig(["EVENTSTORE_URL", "DATABASE_URL"], process.env);
    return withDatabase(DATABASE_URL, async (database) => {
      const client = connectEventStore(EVENTSTORE_URL, "projection-cli");
      const interruptController = new AbortController();
      for (const name of ["SIGINT", "SIGTERM"] as const) process.once(name, () => interruptController.abort());
      try {
        await requireEventStore(client, EVENTSTORE_URL);
        await requirePreparedDatabase(database.pool);
        const { signal } = interruptController;
        const { pool } = database;
        const dataKeys = deferDataKeys(() =>
          createDataKeys(pool, readConfig(["PERSONAL_DATA_KEYS"], process.env), ({ length }) =>
            process.stderr.write(`projection: ${length} data keys are missing, so their data is shown as erased\n`),
          ),
        );
        return await run({ client, ...database, dataKeys, terminal, now: Date.now(), signal });
      } finally {
        await client.dispose();
      }
    });
  });
}

async function withDatabase(
  databaseUrl: string,
  run: (database: Pick<CommandContext, "pool" | "logger" | "databaseUrl">) => Promise<number>,
): Promise<number> {
  const logger = createLogger("projection-cli", "error");
  const pool = createPool({
    url: databaseUrl,
    applicationName: "projection-cli",
    size: 4,
    statementTimeoutMs: 60_000,
    logger,
  });
  try {
    return await run({ pool, logger, databaseUrl });
  } finally {
    await pool.end();
  }
}
