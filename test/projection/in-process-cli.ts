import type { CommandContext } from "../../projection/cli/command-context.ts";
import { projectionCommandLine } from "../../projection/cli/command-line.ts";
import { runCommandLine as runAnyCommandLine } from "../../shared/command-line/command-line.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createUncachedDataKeys } from "../../shared/personal-data/create-data-keys.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
import { createTestTerminal } from "../support/terminal.ts";
import type { CliResult, ServiceServers } from "./service-process.ts";

const logger = createLogger("test", "silent");

/**
 * Runs a command of the projection's command line in this process, which is faster than a separate process.
 *
 * @returns the exit code and the printed lines
 * @throws the error that the command line would print
 */
export async function runInProcess(
  { eventstoreUrl, databaseUrl, personalDataKeys = PERSONAL_DATA_KEYS }: ServiceServers,
  command: (context: CommandContext) => Promise<number>,
): Promise<{ code: number; stdout: string }> {
  const client = connectEventStore(eventstoreUrl, "test");
  const connection = { url: databaseUrl, applicationName: "test", size: 4, statementTimeoutMs: 60_000 };
  const pool = createPool({ ...connection, logger });
  const { terminal, outputLines } = createTestTerminal();
  const { signal } = new AbortController();
  try {
    const context = {
      client,
      pool,
      dataKeys: createUncachedDataKeys(
        pool,
        readConfig(["PERSONAL_DATA_KEYS"], { PERSONAL_DATA_KEYS: personalDataKeys }),
      ),
      logger,
      terminal,
      databaseUrl,
      now: Date.now(),
      signal,
    };
    return { code: await command(context), stdout: outputLines.join("\n") };
  } finally {
    await Promise.all([pool.end(), client.dispose()]);
  }
}

/**
 * Runs `clinic projection …` in this process, which is faster than a separate process.
 *
 * @param env settings
 */
export async function runCommandLine(env: NodeJS.ProcessEnv, args: readonly string[]): Promise<CliResult> {
  const { terminal, outputLines, errorLines } = createTestTerminal({ env });
  const code = await runAnyCommandLine(projectionCommandLine, args, terminal);
  const toText = (lines: string[]) => lines.map((line) => `${line}\n`).join("");
  return { code, stdout: toText(outputLines), stderr: toText(errorLines) };
}
