import type pg from "pg";
import { z } from "zod";
import { type Command, type CommandLine, defineCommand } from "../../shared/command-line/command-line.ts";
import { EXIT_CODE, InputError } from "../../shared/command-line/failure.ts";
import { actorOption, requireOperator } from "../../shared/command-line/operator.ts";
import { type Options, type OptionValues, option } from "../../shared/command-line/option.ts";
import type { Terminal } from "../../shared/command-line/terminal.ts";
import { instant } from "../../shared/domain/events/fields.ts";
import type { Actor } from "../../shared/domain/events/metadata.ts";
import { connectEventStore, requireEventStore } from "../../shared/eventstore/connect.ts";
import { createEventLog } from "../../shared/eventstore/log.ts";
import { createUncachedDataKeys, deferDataKeys } from "../../shared/personal-data/create-data-keys.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { isPostgresUnavailable } from "../../shared/runtime/failures.ts";
import { createLogger, type Logger } from "../../shared/runtime/logger.ts";
import { ServerUnavailableError, StartError } from "../../shared/runtime/run-service.ts";
import { isFilled } from "../checkpoints/checkpoint.ts";
import { DifferentLogError } from "../checkpoints/same-log.ts";
import { readInThread } from "../engine/read-log.ts";
import { prepareDatabase, requirePreparedDatabase } from "../prepare-database.ts";
import { CommandRefusedError, quarantineStream, resumeStream } from "../quarantine/quarantine-commands.ts";
import { checkNatsSettings, NATS_SETTING_NAMES } from "../relay/nats-settings.ts";
import { ProjectionError } from "../roles/role.ts";
import type { CommandContext } from "./command-context.ts";
import { adoptCurrentLog, pruneOtherReadModels, rebuildReadModels, scrubTables, verifyReadModels } from "./rebuild.ts";
import { showStatus } from "./status.ts";

function defineServerCommand<O extends Options>(declaration: {
  name: string;
  summary: string;
  options: O;
  example?: string;
  run(context: CommandContext, values: OptionValues<O>): Promise<number>;
}): Command {
  return defineCommand({
    example: "",
    ...declaration,
    run: (values, terminal) => withServers(terminal, (context) => declaration.run(context, values)),
  });
}

const quarantineOptions = {
  position: option.argument(
    z
      .string()
      .regex(/^\d{1,20}$/, "must be a whole number")
      .transform(BigInt),
    "log position of the event, as `status` shows it",
  ),
  reason: option.text(z.string().trim().min(1).max(200), "reason, 1 to 200 characters, stored in the event log"),
  actor: actorOption,
};

const QUARANTINE_EXAMPLE = "1234 --reason 'Unknown event type'";

export const projectionCommandLine: CommandLine = {
  program: "clinic projection",
  description:
    "Migrates the database, inspects, rebuilds and verifies the read models, and quarantines or resumes event streams.",
  ownExitCodes: [
    [ProjectionError, EXIT_CODE.failed],
    [CommandRefusedError, EXIT_CODE.refused],
    [DifferentLogError, EXIT_CODE.refused],
  ],
  commands: [
    defineServerCommand({
      name: "status",
      summary: "Shows the state of the projectors, relay and webhooks roles, and the quarantined streams.",
      options: { json: option.flag("print JSON") },
      run: showStatus,
    }),
    defineCommand({
      name: "migrate",
      summary:
        "Prepares the database for this release: applies new migrations, and creates missing read models. Changes nothing if the database is prepared.",
      options: {},
      example: "",
      run: (_, terminal) =>
        withDatabase(readConfig(["DATABASE_URL"], terminal.env).DATABASE_URL, (database) =>
          migrateDatabase(database, terminal),
        ),
    }),
    defineServerCommand({
      name: "rebuild",
      summary:
        "Rebuilds all read models from the event log. The current read models stay in use until the new ones have caught up and replace them.",
      options: {
        adoptLog: option.flag(
          "continue with an event log that is not the one this database was built from, for example after a restore from an older backup, or after a loss of the database",
        ),
        tellSince: option.text(
          instant.transform((time) => Date.parse(time)).optional(),
          "with --adopt-log: also send webhooks for the events stored in the log since this time",
          "date-time",
        ),
      },
      async run(context, { adoptLog, tellSince: notifyFrom }) {
        if (adoptLog) {
          const nats = checkNatsSettings(readConfig(NATS_SETTING_NAMES, context.terminal.env));
          return adoptCurrentLog(context, nats, notifyFrom);
        }
        if (notifyFrom !== undefined) throw new InputError("--tell-since requires --adopt-log");
        return rebuildReadModels(context);
      },
    }),
    defineServerCommand({
      name: "verify",
      summary: "Compares the read models with the event log, and lists every row that differs.",
      options: { json: option.flag("print one JSON object per line") },
      run: verifyReadModels,
    }),
    defineServerCommand({
      name: "prune",
      summary:
        "Drops the read models that other releases have built. Without them, a return to such a release needs to fill them again.",
      options: {},
      run: (context) => pruneOtherReadModels(context),
    }),
    defineServerCommand({
      name: "scrub",
      summary:
        "Rewrites the tables that held erased personal data, because Postgres keeps former row versions in its files. Each table is locked while it is rewritten. Run it after erasures.",
      options: {},
      run: scrubTables,
    }),
    defineServerCommand({
      name: "quarantine",
      summary:
        "Quarantines the stream of the event that stopped the projectors: skips this event and all later events of the stream.",
      options: {
        ...quarantineOptions,
        confirmType: option.flag(
          "confirm that events of this type are to blame, not the release: quarantine every stream in which such an event fails, for the events that are already in the log",
        ),
      },
      example: QUARANTINE_EXAMPLE,
      run: (context, { actor, ...values }) =>
        quarantine(context, { ...values, actor: requireOperator(context.terminal.env, actor) }),
    }),
    defineServerCommand({
      name: "resume",
      summary:
        "Stops skipping a quarantined stream. If the read models lack events of the stream, the projectors replay it.",
      options: quarantineOptions,
      example: QUARANTINE_EXAMPLE,
      run: (context, { actor, ...values }) =>
        resume(context, { ...values, actor: requireOperator(context.terminal.env, actor) }),
    }),
  ],
};

function withServers(terminal: Terminal, run: (context: CommandContext) => Promise<number>): Promise<number> {
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
  } catch (error) {
    if (!isPostgresUnavailable(error)) throw error;
    throw new ServerUnavailableError(
      `The database is unavailable. Check DATABASE_URL. (${(error as Error).message || (error as { code?: string }).code})`,
      { cause: error },
    );
  } finally {
    await pool.end();
  }
}

/**
 * Prepares the database for this release, and prints the applied migrations.
 *
 * @returns the exit code
 * @throws {ServerUnavailableError} if the database is unavailable
 * @throws {StartError} if a migration fails
 */
async function migrateDatabase(
  { databaseUrl, pool, logger }: { databaseUrl: string; pool: pg.Pool; logger: Logger },
  terminal: Pick<Terminal, "writeOutput">,
): Promise<number> {
  const migrations = await prepareDatabase(databaseUrl, pool, logger).catch((error) => {
    const ErrorClass = isPostgresUnavailable(error) ? ServerUnavailableError : StartError;
    throw new ErrorClass(`The database cannot be migrated. Check DATABASE_URL. (${error.message || error.code})`);
  });
  for (const name of migrations) await terminal.writeOutput(`Applied ${name}.`);
  await terminal.writeOutput("The database is prepared for this release.");
  if (!(await isFilled(pool, READ_MODEL_SCHEMA))) {
    await terminal.writeOutput(
      "The read models are not filled yet. The projection service of this release fills them.",
    );
  }
  return 0;
}

interface QuarantineOptions {
  position: bigint;
  reason: string;
  actor: Actor;
}

/**
 * Quarantines the stream of the event at the given log position. With `confirmType`, also quarantines all other streams
 * in which an event of the same type fails.
 *
 * @returns the exit code
 * @throws {CommandRefusedError}
 */
async function quarantine(
  { client, pool, terminal, now }: CommandContext,
  { position, confirmType: confirmsType, ...options }: QuarantineOptions & { confirmType: boolean },
): Promise<number> {
  const log = createEventLog(client);
  const command = { ...options, now };
  const { stream, revision, type } = await quarantineStream({ client, log, pool }, position, command, { confirmsType });
  await terminal.writeOutput(
    confirmsType
      ? `Confirmed: every stream in which a stored event of type ${type} fails is skipped from that event on.`
      : `Quarantined: stream ${stream} is skipped from revision ${revision} on.`,
  );
  await terminal.writeOutput("The projectors continue within seconds. To stop skipping a stream, run `resume`.");
  return 0;
}

/**
 * Resumes the stream that is quarantined at a log position.
 *
 * @returns the exit code: 1 if the projectors still skip the stream
 * @throws {CommandRefusedError}
 */
async function resume(
  { client, pool, terminal, now }: CommandContext,
  { position, ...options }: QuarantineOptions,
): Promise<number> {
  const deps = { client, log: createEventLog(client), pool };
  const { stream, revision, problem } = await resumeStream(deps, position, { ...options, now });
  if (problem !== undefined) {
    await terminal.writeOutput(`The projectors still skip stream ${stream}: ${problem}`);
    return EXIT_CODE.failed;
  }
  await terminal.writeOutput(`Resumed: stream ${stream} is no longer skipped from revision ${revision} on.`);
  return EXIT_CODE.done;
}
