import type pg from "pg";
import { z } from "zod";
import { type Command, type CommandLine, defineCommand } from "../../shared/command-line/command-line.ts";
import { describeFailure } from "../../shared/command-line/describe-failure.ts";
import { EXIT_CODE, InputError } from "../../shared/command-line/failure.ts";
import { withLocalTimes } from "../../shared/command-line/local-times.ts";
import { actorOption, requireOperator } from "../../shared/command-line/operator.ts";
import { type Options, type OptionValues, option } from "../../shared/command-line/option.ts";
import type { Terminal } from "../../shared/command-line/terminal.ts";
import { instant } from "../../shared/domain/events/fields.ts";
import { connectEventStore, requireEventStore } from "../../shared/eventstore/connect.ts";
import { createUncachedDataKeys, deferDataKeys } from "../../shared/personal-data/create-data-keys.ts";
import { COMMAND_LINE_CONNECT_TIMEOUT_MS, createPool } from "../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { isPostgresUnavailable } from "../../shared/runtime/failures.ts";
import { createLogger, type Logger } from "../../shared/runtime/logger.ts";
import { isFilled } from "../checkpoints/checkpoint.ts";
import { DifferentLogError } from "../checkpoints/same-log.ts";
import { readInThread } from "../engine/read-log.ts";
import { prepareDatabase, requirePreparedDatabase, toDatabaseError } from "../prepare-database.ts";
import { CommandRefusedError, confirmType } from "../quarantine/confirmed-types.ts";
import { NATS_SETTING_NAMES, validateNatsSettings } from "../relay/nats-settings.ts";
import { ProjectionError } from "../roles/role.ts";
import {
  adoptCurrentLog,
  type CommandContext,
  pruneOtherReadModels,
  rebuildReadModels,
  scrubTables,
  verifyReadModels,
} from "./rebuild.ts";
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

export const projectionCommandLine: CommandLine = {
  program: "clinic projection",
  description: "Migrates the database, inspects, rebuilds and verifies the read models, and quarantines event streams.",
  describeFailure: (error) =>
    describeFailure(error, [
      [ProjectionError, EXIT_CODE.failed],
      [CommandRefusedError, EXIT_CODE.refused],
      [DifferentLogError, EXIT_CODE.refused],
    ]),
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
    withLocalTimes(
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
            "with --adopt-log: also send webhooks for the events stored in the log since this time, in the time zone of this computer if it has no offset",
            "date or time",
          ),
        },
        async run(context, { adoptLog, tellSince: notifyFrom }) {
          if (adoptLog) {
            const nats = validateNatsSettings(readConfig(NATS_SETTING_NAMES, context.terminal.env));
            return adoptCurrentLog(context, nats, notifyFrom);
          }
          if (notifyFrom !== undefined) throw new InputError("--tell-since requires --adopt-log");
          return rebuildReadModels(context);
        },
      }),
    ),
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
      run: pruneOtherReadModels,
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
        "Confirms that events of the type that stopped the projectors are to blame, not the release: the projectors quarantine every stream in which such an event fails, for the events that are already in the log.",
      options: {
        position: option.argument(
          z
            .string()
            .regex(/^\d{1,20}$/, "must be a whole number")
            .transform(BigInt),
          "log position of the event, as `status` shows it",
        ),
        reason: option.text(z.string().trim().min(1).max(200), "reason, 1 to 200 characters, stored in the event log"),
        actor: actorOption,
      },
      example: "1234 --reason 'Faulty import'",
      async run(context, { actor, position, reason }) {
        const { terminal, now } = context;
        const command = { actor: requireOperator(terminal.env, actor), reason, now };
        const type = await confirmType(context, position, command);
        await terminal.writeOutput(
          `Confirmed: every stream in which a stored event of type ${type} fails is skipped from that event on.`,
        );
        await terminal.writeOutput("The projectors continue within seconds.");
        return EXIT_CODE.done;
      },
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
    connectTimeoutMs: COMMAND_LINE_CONNECT_TIMEOUT_MS,
    statementTimeoutMs: 60_000,
    logger,
  });
  try {
    return await run({ pool, logger, databaseUrl });
  } catch (error) {
    throw isPostgresUnavailable(error) ? toDatabaseError("The database is unavailable.", error as Error) : error;
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
    throw toDatabaseError("The database cannot be migrated.", error);
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
