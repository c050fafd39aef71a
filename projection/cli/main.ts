/** The operator's commands for the read models: `npm run projection -- status | rebuild | verify`. */
import { Command } from "commander";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { requireEventStore } from "../../shared/eventstore/reach.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { ConfigError, readConfig } from "../../shared/runtime/config.ts";
import { localStackUrls } from "../../shared/runtime/local-stack.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { ProjectionFailure } from "../engine/apply-batch.ts";
import type { ProjectionCommand, Terminal } from "./command.ts";
import { rebuildCommand } from "./rebuild.ts";
import { statusCommand } from "./status.ts";
import { verifyCommand } from "./verify.ts";

const terminal: Terminal = {
  out: (line) => process.stdout.write(`${line}\n`),
  progress: (text) => process.stderr.write(process.stderr.isTTY ? `\r\x1b[K${text}` : `${text}\n`),
};

const program = new Command("projection")
  .description("Read models: how far they are, building them anew, comparing them with the log.")
  .showHelpAfterError();
const commands = { status: statusCommand, rebuild: rebuildCommand, verify: verifyCommand };
for (const [name, command] of Object.entries(commands)) {
  program
    .command(name)
    .description(command.description)
    .action(() => run(command));
}

await program.parseAsync();

/** Exit codes: 0 done, 1 differences or an event that cannot be taken, 2 nothing to work with. */
async function run(command: ProjectionCommand): Promise<void> {
  try {
    process.exitCode = await withServers(command);
  } catch (error) {
    const known =
      error instanceof ConfigError || error instanceof StartError || error instanceof ProjectionFailure;
    process.stderr.write(`\nprojection: ${known ? error.message : String(error)}\n`);
    process.exitCode = error instanceof ProjectionFailure ? 1 : 2;
  }
}

async function withServers(command: ProjectionCommand): Promise<number> {
  const { EVENTSTORE_URL, DATABASE_URL } = readConfig(["EVENTSTORE_URL", "DATABASE_URL"], serverUrls());
  const logger = createLogger("projection-cli", "error");
  const client = connectEventStore(EVENTSTORE_URL, "projection-cli");
  const size = 4;
  const pool = createPool({
    url: DATABASE_URL,
    applicationName: "projection-cli",
    size,
    statementTimeout: 60_000,
    logger,
  });
  const interrupted = new AbortController();
  for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => interrupted.abort());
  try {
    await requireEventStore(client, EVENTSTORE_URL);
    return await command.run({ client, pool, logger, terminal, signal: interrupted.signal });
  } finally {
    await Promise.all([pool.end(), client.dispose()]);
  }
}

function serverUrls(): NodeJS.ProcessEnv {
  if (process.env.EVENTSTORE_URL && process.env.DATABASE_URL) return process.env;
  const { eventstore, postgres } = localStackUrls(process.env);
  return { EVENTSTORE_URL: eventstore, DATABASE_URL: postgres.projection };
}
