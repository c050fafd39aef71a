import type { CommandContext } from "../../projection/cli/command.ts";
import { connectEventStore } from "../../shared/eventstore/connect.ts";
import { createPool } from "../../shared/postgres/pool.ts";
import { createTestDataKeys } from "../support/data-keys.ts";
import { logger } from "./engine-world.ts";
import type { ServiceServers } from "./service-process.ts";

/**
 * Runs a command of the projection's command line in this process, which is faster than a separate process.
 *
 * @returns the exit code and the printed lines
 * @throws the error that the command line would print
 */
export async function runInProcess(
  { eventstoreUrl, databaseUrl }: ServiceServers,
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
      dataKeys: createTestDataKeys(pool),
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
