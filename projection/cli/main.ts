/** The operator's commands for the read models: `npm run projection -- status | rebuild | verify | park | resume`. */
import os from "node:os";
import { Command, InvalidArgumentError } from "commander";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { requireEventStore } from "../../shared/eventstore/reach.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { ConfigError } from "../../shared/runtime/config.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { StartError } from "../../shared/runtime/run-service.ts";
import { ProjectionFailure } from "../engine/failure.ts";
import { ActRefused } from "../parking/parking-acts.ts";
import type { CommandContext, Terminal } from "./command.ts";
import { type ActOptions, park, resume } from "./parking.ts";
import { rebuildReadModels } from "./rebuild.ts";
import { serverUrls } from "./server-urls.ts";
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
  .action(() => run(rebuildReadModels));
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

function toPosition(text: string): bigint {
  if (!/^\d{1,20}$/.test(text)) throw new InvalidArgumentError("It must be a whole number.");
  return BigInt(text);
}

/** Exit codes: 0 done, 1 differences or an event that cannot be taken, 2 nothing to work with. */
async function run(work: (context: CommandContext) => Promise<number>): Promise<void> {
  try {
    process.exitCode = await withServers(work);
  } catch (error) {
    const known = [ConfigError, StartError, ProjectionFailure, ActRefused].some(
      (type) => error instanceof type,
    );
    process.stderr.write(`\nprojection: ${known ? (error as Error).message : String(error)}\n`);
    process.exitCode = error instanceof ProjectionFailure || error instanceof ActRefused ? 1 : 2;
  }
}

async function withServers(work: (context: CommandContext) => Promise<number>): Promise<number> {
  const { EVENTSTORE_URL, DATABASE_URL } = serverUrls(process.env);
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
    return await work({ client, pool, logger, terminal, now: Date.now(), signal: interrupted.signal });
  } finally {
    await Promise.all([pool.end(), client.dispose()]);
  }
}
