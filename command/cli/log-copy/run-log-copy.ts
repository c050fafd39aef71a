import { EXIT_CODE, InputError } from "../../../shared/command-line/failure.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { createProgressBar } from "../../../shared/command-line/progress-bar.ts";
import type { Terminal } from "../../../shared/command-line/terminal.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { type CopyProgress, type CopyResult, copyLog } from "./copy-log.ts";
import { type CopyServer, connectCopyServer } from "./copy-server.ts";

interface LogCopyOptions {
  verifyOnly: boolean;
  logWait: number;
  json: boolean;
}

const COMMAND_NAME = "log copy";

/**
 * Runs `log copy`: copies the event log at EVENTSTORE_URL to the one at COPY_TARGET_URL, and verifies the copy.
 *
 * @returns the exit code: 1 if the logs differ
 * @throws {ConfigError | StartError | InputError} if a setting or option is wrong
 * @throws {DomainError} if the target differs from the source, or an event cannot be reproduced
 * @throws {ServerUnavailableError}
 */
export async function runLogCopy(options: LogCopyOptions, terminal: Terminal): Promise<number> {
  const timeoutMs = options.logWait * 1000;
  const { EVENTSTORE_URL, COPY_TARGET_URL } = readConfig(["EVENTSTORE_URL", "COPY_TARGET_URL"], terminal.env);
  if (EVENTSTORE_URL === COPY_TARGET_URL) throw new InputError("COPY_TARGET_URL must differ from EVENTSTORE_URL");
  const signal = terminal.catchInterruption();
  const display = createDisplay(terminal);
  const servers: CopyServer[] = [];
  try {
    const open = async (name: "source" | "target", setting: "EVENTSTORE_URL" | "COPY_TARGET_URL", url: string) => {
      const server = await connectCopyServer({ signal, timeoutMs, writeNote: display.writeNote, name, setting, url });
      servers.push(server);
      return server;
    };
    const source = await open("source", "EVENTSTORE_URL", EVENTSTORE_URL);
    const target = await open("target", "COPY_TARGET_URL", COPY_TARGET_URL);
    const { verifyOnly } = options;
    const result = await copyLog({ source, target, verifyOnly, signal, onProgress: display.showProgress });
    return await printResult(result, options, terminal);
  } finally {
    for (const { reader, client } of servers) {
      await reader.close();
      await client.dispose();
    }
  }
}

const PROGRESS_INTERVAL_MS = 100;

/** Resolution of the progress bar, which needs a total. */
const PROGRESS_STEPS = 1_000;

function createDisplay(terminal: Terminal) {
  const bar = createProgressBar(COMMAND_NAME, PROGRESS_STEPS, terminal);
  let verifyBar: typeof bar | undefined;
  let shownAt = 0;
  return {
    showProgress({ phase, eventCount, share }: CopyProgress): void {
      const now = performance.now();
      if (now - shownAt < PROGRESS_INTERVAL_MS) return;
      shownAt = now;
      if (phase === "verified") verifyBar ??= createProgressBar(COMMAND_NAME, PROGRESS_STEPS, terminal);
      // The source can grow during the copy.
      (verifyBar ?? bar).show(Math.min(share, 1) * PROGRESS_STEPS, `${eventCount} events ${phase}`);
    },
    writeNote: (text: string) => void terminal.writeError(`${COMMAND_NAME}: ${text}`),
  };
}

async function printResult(
  { copied, summaries, difference }: CopyResult,
  { json, verifyOnly }: LogCopyOptions,
  terminal: Terminal,
): Promise<number> {
  const outcome = summaries ? "complete" : "interrupted";
  const isEqual =
    summaries &&
    summaries.source.events === summaries.target.events &&
    summaries.source.sha256 === summaries.target.sha256;
  if (json) {
    await terminal.writeOutput(
      JSON.stringify({ command: COMMAND_NAME, end: outcome, copied, equal: isEqual ?? null, ...summaries, difference }),
    );
  } else if (summaries) {
    if (!verifyOnly) await terminal.writeOutput(`${COMMAND_NAME}: ${formatCount(copied, "event")} copied`);
    for (const name of ["source", "target"] as const)
      await terminal.writeOutput(
        `${COMMAND_NAME}: ${name}: ${formatCount(summaries[name].events, "event")}, SHA-256 ${summaries[name].sha256}`,
      );
  }
  if (!summaries) {
    await terminal.writeError(
      `${COMMAND_NAME}: interrupted after ${copied} copied events; run the same command again to continue`,
    );
    return EXIT_CODE.interrupted;
  }
  if (isEqual) {
    if (!json) await terminal.writeOutput(`${COMMAND_NAME}: the logs are equal`);
    return EXIT_CODE.done;
  }
  const reason = difference ?? "run log copy --verify-only to find the first difference";
  await terminal.writeError(`${COMMAND_NAME}: the logs differ: ${reason}`);
  return EXIT_CODE.failed;
}
