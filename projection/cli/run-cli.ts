import { Command, CommanderError, InvalidArgumentError } from "commander";
import type { Actor } from "../../shared/domain/events/metadata.ts";
import { parseRfc3339 } from "../../shared/domain/time/rfc3339.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { identifyOperator } from "../../shared/eventstore/identify-operator.ts";
import { requireEventStore } from "../../shared/eventstore/reach.ts";
import { createUncachedDataKeys, deferDataKeys } from "../../shared/personal-data/create-data-keys.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { ConfigError, readConfig } from "../../shared/runtime/config.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { DifferentLogError } from "../checkpoints/same-log.ts";
import { readInThread } from "../engine/read-in-thread.ts";
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

/** Environment of the command line. */
export interface CliTerminal extends Terminal {
  /** Settings. */
  env: NodeJS.ProcessEnv;
  /** Writes text to standard error, without a line break. */
  writeError(text: string): void;
  /** Returns a signal that aborts when the operator interrupts the command. */
  catchInterruption(): AbortSignal;
}

/**
 * Runs `clinic projection <command> [options]`. The exit code is:
 * - 0: success
 * - 1: rows differ, the command was refused or interrupted, an argument is wrong, or an event cannot be processed
 * - 2: any other error, such as a wrong configuration or an event log that does not match the database
 *
 * @param args arguments without the program
 * @returns the exit code
 */
export async function runCli(args: readonly string[], terminal: CliTerminal): Promise<number> {
  let exitCode = 0;
  const program = createProgram(terminal, async (run) => {
    exitCode = await runCommand(run, terminal);
  });
  try {
    await program.parseAsync(args, { from: "user" });
    return exitCode;
  } catch (error) {
    // The text was already written. Help ends with such an error, too, whose exit code is 0.
    if (error instanceof CommanderError) return error.exitCode;
    throw error;
  }
}

/** Functions that execute a command and store its exit code. */
interface Executor {
  execute(run: () => Promise<number>): Promise<void>;
  /** Executes a command that needs the event log and a prepared database. */
  executeWithServers(run: (context: CommandContext) => Promise<number>): Promise<void>;
}

function createProgram(terminal: CliTerminal, execute: Executor["execute"]): Command {
  const program = new Command("clinic projection")
    .description(
      "Migrate the database, inspect, rebuild and verify the read models, and park event streams that stop the projection.",
    )
    .showHelpAfterError()
    .configureOutput({ writeOut: (text) => terminal.out(text.replace(/\n$/, "")), writeErr: terminal.writeError })
    .exitOverride();
  const executor: Executor = {
    execute,
    executeWithServers: (run) => execute(() => withServers(terminal, run)),
  };
  addStatusCommand(program, executor);
  addMigrateCommand(program, executor, terminal);
  addRebuildCommand(program, executor, terminal);
  addTableCommands(program, executor);
  addParkingCommands(program, executor, terminal);
  return program;
}

function addStatusCommand(program: Command, { executeWithServers }: Executor): void {
  program
    .command("status")
    .description("Show the state of the projectors, relay and webhooks roles, and the parked streams.")
    .option("--json", "print JSON")
    .action((options: { json?: boolean }) =>
      executeWithServers((context) => showStatus(context, { json: options.json === true })),
    );
}

function addMigrateCommand(program: Command, { execute }: Executor, terminal: CliTerminal): void {
  program
    .command("migrate")
    .description(
      "Prepare the database for this release: apply new migrations, and create missing read models. Changes nothing if the database is prepared.",
    )
    .action(() =>
      execute(() => {
        const { DATABASE_URL } = readConfig(["DATABASE_URL"], terminal.env);
        return withDatabase(DATABASE_URL, (database) => migrateDatabase(database, terminal));
      }),
    );
}

function addRebuildCommand(program: Command, { executeWithServers }: Executor, { env }: CliTerminal): void {
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
      executeWithServers((context) => {
        if (adoptLog) {
          const nats = toNatsSettings(readConfig(NATS_SETTING_NAMES, env));
          return adoptCurrentLog(context, nats, notifyFrom);
        }
        if (notifyFrom === undefined) return rebuildReadModels(context);
        throw new CommandRefusedError("--tell-since requires --adopt-log.");
      }),
    );
}

function addTableCommands(program: Command, { executeWithServers }: Executor): void {
  program
    .command("verify")
    .description("Compare the read models with the event log, and list every row that differs.")
    .action(() => executeWithServers(verifyReadModels));
  program
    .command("prune")
    .description(
      "Drop the read models that other releases have built. Without them, a return to such a release needs to fill them again.",
    )
    .action(() => executeWithServers(pruneOtherReadModels));
  program
    .command("scrub")
    .description(
      "Rewrite the tables that held erased personal data, because Postgres keeps former row versions in its files. Each table is locked while it is rewritten. Run it after erasures.",
    )
    .action(() => executeWithServers(scrubTables));
}

function addParkingCommands(program: Command, { executeWithServers }: Executor, { env }: CliTerminal): void {
  const addCommand = (
    name: string,
    description: string,
    run: (context: CommandContext, position: bigint, options: ParkingOptions) => Promise<number>,
  ) =>
    program
      .command(name)
      .description(description)
      .argument("<position>", "log position of the event, as `status` shows it", parsePosition)
      .requiredOption("--reason <text>", "reason, 1 to 200 characters, stored in the event log")
      .option(
        "--actor <name>",
        "your name, recorded with the event; a note if the event log knows you; default: your user name",
      )
      .action((position: bigint, { reason, actor }: { reason: string; actor?: string }) =>
        executeWithServers((context) => run(context, position, { reason, actor: requireOperator(env, actor) })),
      );
  addCommand(
    "park",
    "Park the stream of the event that stopped the projectors or the relay: skip this event and all later events of the stream.",
    park,
  );
  addCommand(
    "resume",
    "Stop skipping a parked stream. If the read models lack events of the stream, they are rebuilt with these events first.",
    resume,
  );
}

/** @throws {CommandRefusedError} if the name is missing or invalid */
function requireOperator(env: NodeJS.ProcessEnv, name: string | undefined): Actor {
  const operator = identifyOperator(readConfig(["EVENTSTORE_URL"], env).EVENTSTORE_URL, name);
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

/** Runs a command, and writes its error. @returns the exit code */
async function runCommand(run: () => Promise<number>, { writeError }: CliTerminal): Promise<number> {
  try {
    return await run();
  } catch (error) {
    const isExpected = [ConfigError, StartError, ProjectionError, CommandRefusedError, DifferentLogError].some(
      (type) => error instanceof type,
    );
    writeError(`\nprojection: ${isExpected ? (error as Error).message : String(error)}\n`);
    return error instanceof ProjectionError || error instanceof CommandRefusedError ? 1 : 2;
  }
}

/** Runs a command that needs the event log and a prepared database. */
function withServers(terminal: CliTerminal, run: (context: CommandContext) => Promise<number>): Promise<number> {
  const { env } = terminal;
  const { EVENTSTORE_URL, DATABASE_URL } = readConfig(["EVENTSTORE_URL", "DATABASE_URL"], env);
  return withDatabase(DATABASE_URL, async (database) => {
    const client = connectEventStore(EVENTSTORE_URL, "projection-cli");
    const signal = terminal.catchInterruption();
    try {
      await requireEventStore(client, EVENTSTORE_URL);
      const { pool } = database;
      await requirePreparedDatabase(pool);
      const dataKeys = deferDataKeys(() => createUncachedDataKeys(pool, readConfig(["PERSONAL_DATA_KEYS"], env)));
      const readLog = readInThread(EVENTSTORE_URL);
      return await run({ client, ...database, dataKeys, readLog, terminal, now: Date.now(), signal });
    } finally {
      await client.dispose();
    }
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
