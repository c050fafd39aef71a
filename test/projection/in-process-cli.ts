import type { CommandContext } from "../../projection/cli/command.ts";
import { runCli } from "../../projection/cli/run-cli.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createUncachedDataKeys } from "../../shared/personal-data/create-data-keys.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { readConfig } from "../../shared/runtime/config.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { PERSONAL_DATA_KEYS } from "../support/data-keys.ts";
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
  const lines: string[] = [];
  const terminal = { out: (line: string) => void lines.push(line), showProgress: () => undefined };
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
    return { code: await command(context), stdout: lines.join("\n") };
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
  const output = { stdout: "", stderr: "" };
  const code = await runCli(args, {
    env,
    out: (line) => {
      output.stdout += `${line}\n`;
    },
    showProgress: (text) => {
      output.stderr += `${text}\n`;
    },
    writeError: (text) => {
      output.stderr += text;
    },
    catchInterruption: () => new AbortController().signal,
  });
  return { code, ...output };
}
