import { z } from "zod";
import { generateKeys, type KeySetting } from "../../../shared/auth/generate-keys.ts";
import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { EXIT_CODE } from "../../../shared/command-line/failure.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { createProgressBar } from "../../../shared/command-line/progress-bar.ts";
import { createMasterKeys } from "../../../shared/personal-data/master-keys.ts";
import { type RotationProgress, rotateDataKeys } from "../../../shared/personal-data/rotate-data-keys.ts";
import { COMMAND_LINE_CONNECT_TIMEOUT_MS, createPool } from "../../../shared/postgres/pool.ts";
import { readConfig, settings } from "../../../shared/runtime/config.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";

export const keySettings = Object.keys(settings).filter((name): name is KeySetting => name.endsWith("_KEYS"));

const FORMER_HELP = "file with the value of the setting; the new key is added to its keys, and is not used yet";

export const generateKeysCommand = defineCommand({
  name: "keys generate",
  summary: "Generates a key, and prints the value of a setting with this key. Needs no server.",
  options: {
    for: option.text(z.enum(keySettings), `the setting: ${keySettings.join(", ")}`, "setting"),
    addTo: option.text(z.string().optional(), FORMER_HELP, "file"),
  },
  example: "--for TOKEN_SIGNING_KEYS > token-signing-keys",
  run: async ({ for: setting, addTo }, { writeOutput }) => {
    const former = addTo === undefined ? undefined : readConfig([setting], { [`${setting}_FILE`]: addTo })[setting];
    await writeOutput(await generateKeys(setting, former));
  },
});

const COMMAND_NAME = "data-keys rotate";

const STATEMENT_TIMEOUT_MS = 30_000;

/** Re-encrypts (wraps) all data keys with the current master key. An interrupted run stops after the current batch. */
export const rotateDataKeysCommand = defineCommand({
  name: COMMAND_NAME,
  summary:
    "Wraps all data keys of personal data with the current master key of PERSONAL_DATA_KEYS. Afterwards, no data key needs another master key. An interrupted rotation can be repeated.",
  options: { json: jsonOption },
  example: "",
  async run({ json }, terminal) {
    const { DATABASE_URL, PERSONAL_DATA_KEYS } = readConfig(["DATABASE_URL", "PERSONAL_DATA_KEYS"], terminal.env);
    const signal = terminal.catchInterruption();
    const pool = createPool({
      url: DATABASE_URL,
      applicationName: "data-keys",
      size: 1,
      connectTimeoutMs: COMMAND_LINE_CONNECT_TIMEOUT_MS,
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
      await pool.end();
    }
    const isInterrupted = signal.aborted;
    const { current } = PERSONAL_DATA_KEYS;
    await terminal.writeOutput(
      json
        ? JSON.stringify({ command: COMMAND_NAME, masterKey: current, interrupted: isInterrupted, ...progress })
        : `${COMMAND_NAME}: ${formatRotation(progress, current, isInterrupted)}`,
    );
    if (isInterrupted) return EXIT_CODE.interrupted;
    return progress.rewrapped === progress.found ? EXIT_CODE.done : EXIT_CODE.failed;
  },
});

function formatRotation({ rewrapped, found }: RotationProgress, current: string, isInterrupted: boolean): string {
  if (isInterrupted) return `interrupted after ${rewrapped} of ${found} keys; run the command again to continue`;
  const result = `wrapped ${formatCount(rewrapped, "key")} with the master key ${current}`;
  if (rewrapped === found) return `${result}; no key needs another master key`;
  return `${result}; keys that need another master key: ${found - rewrapped}; restart the processes that use it, and run the command again`;
}
