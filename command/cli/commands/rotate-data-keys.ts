import { z } from "zod";
import { createMasterKeys } from "../../../shared/personal-data/master-keys.ts";
import { type RotationProgress, rotateDataKeys } from "../../../shared/personal-data/rotate-data-keys.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { EXIT_CODE } from "../framework/failure.ts";
import { createProgressBar } from "../framework/progress-bar.ts";
import { parseOptions, type RawOptions, type Terminal } from "../framework/run-command.ts";

const schema = z.object({ json: z.boolean().optional() });

const COMMAND_NAME = "data-keys rotate";

/** Time limit for one SQL statement. Milliseconds. */
const STATEMENT_TIMEOUT_MS = 30_000;

/**
 * Runs `data-keys rotate`: wraps all data keys with the current master key of PERSONAL_DATA_KEYS, and prints their
 * number. An interruption stops after the current batch.
 *
 * @returns the exit code
 * @throws {ConfigError} if PERSONAL_DATA_KEYS or DATABASE_URL is missing or invalid
 * @throws {DataKeyError} if some keys cannot be used, for example because PERSONAL_DATA_KEYS lacks their master key
 * @throws {KeyStoreUnavailableError}
 */
export async function rotateMasterKey(rawOptions: RawOptions, terminal: Terminal): Promise<number> {
  const { json } = parseOptions(schema, rawOptions);
  const { DATABASE_URL, PERSONAL_DATA_KEYS } = readConfig(["DATABASE_URL", "PERSONAL_DATA_KEYS"], terminal.env);
  const signal = terminal.catchInterruption();
  const pool = createPool({
    url: DATABASE_URL,
    applicationName: "data-keys",
    size: 1,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    logger: createLogger("data-keys", "silent"), // the command reports a lost connection
  });
  let progressBar: ReturnType<typeof createProgressBar> | undefined;
  let progress: RotationProgress = { rewrapped: 0, found: 0 };
  try {
    for await (progress of rotateDataKeys(pool, createMasterKeys(PERSONAL_DATA_KEYS))) {
      progressBar ??= createProgressBar(COMMAND_NAME, Math.max(1, progress.found), terminal);
      progressBar.show(progress.rewrapped, `${progress.rewrapped} of ${progress.found} keys`);
      if (signal.aborted) break;
    }
  } finally {
    progressBar?.end();
    await pool.end();
  }
  const isInterrupted = signal.aborted;
  const { current } = PERSONAL_DATA_KEYS;
  await terminal.writeOutput(
    json
      ? JSON.stringify({ command: COMMAND_NAME, masterKey: current, interrupted: isInterrupted, ...progress })
      : `${COMMAND_NAME}: ${formatRotation(progress, current, isInterrupted)}`,
  );
  return isInterrupted ? EXIT_CODE.interrupted : EXIT_CODE.done;
}

function formatRotation({ rewrapped, found }: RotationProgress, current: string, isInterrupted: boolean): string {
  if (isInterrupted) return `interrupted after ${rewrapped} of ${found} keys; run the command again to continue`;
  return `wrapped ${rewrapped} keys with the master key ${current}; no key needs another master key`;
}
