import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { EXIT_CODE, InputError } from "../../../shared/command-line/failure.ts";
import { formatCount } from "../../../shared/command-line/format-count.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { showProgress } from "../../../shared/command-line/terminal.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { createLogWaitOption } from "../options.ts";
import { CopiedLog } from "./copied-log.ts";
import { copyLog } from "./copy-log.ts";

const COMMAND_NAME = "log copy";

const LOG_COPY_HELP = `The source is the log at EVENTSTORE_URL, the target is the log at COPY_TARGET_URL, which has the form
esdb://admin:<password>@db.example:2113. The target must be empty, or contain
the first events of the source. Stream, revision, id, type, content type, data and metadata of each event stay
unchanged, and so does the order of all events. Log positions and the times of storage are those of the target. System
streams of the source are not copied, except for the metadata of other streams.

The copy can run while the services write to the source. It ends when it has caught up. To copy later events, or to
continue a copy that was stopped or killed, run it again. Each run compares the whole target with the source, and prints
the number of events in both logs and a SHA-256 hash of them.

With --json, the result is printed as one line:
  {"command": "log copy", "end": "complete", "copied": 7, "events": 9, "sha256": "..."}
"end" is complete or interrupted. An interrupted copy has no "events" and no hash.

Exit codes: 0 the logs are equal, 2 invalid option or setting, 3 the target is not a copy of the source, or an event
cannot be copied unchanged, 4 a log is unavailable, 130 interrupted, 1 any other error.`;

const PROGRESS_INTERVAL_MS = { terminal: 100, file: 5_000 };

/** Copies the event log at EVENTSTORE_URL to the one at COPY_TARGET_URL, and verifies the copy. */
export const logCopyCommand = defineCommand({
  name: COMMAND_NAME,
  summary: "Copies the event log to another server, and verifies the copy.",
  options: {
    verifyOnly: option.flag("compare the logs without copying"),
    logWait: createLogWaitOption(300),
    json: jsonOption,
  },
  example: "",
  details: LOG_COPY_HELP,
  async run({ verifyOnly, logWait: waitSeconds, json }, terminal) {
    const { EVENTSTORE_URL, COPY_TARGET_URL } = readConfig(["EVENTSTORE_URL", "COPY_TARGET_URL"], terminal.env);
    if (EVENTSTORE_URL === COPY_TARGET_URL) throw new InputError("COPY_TARGET_URL must differ from EVENTSTORE_URL");
    const signal = terminal.catchInterruption();
    const writeNote = (text: string) => void terminal.writeError(`${COMMAND_NAME}: ${text}`);
    let shownAt = 0;
    const onProgress = (phase: string, count: number, share: number) => {
      if (performance.now() - shownAt < PROGRESS_INTERVAL_MS[terminal.redraw ? "terminal" : "file"]) return;
      shownAt = performance.now();
      showProgress(terminal, `${COMMAND_NAME}: ${count} events ${phase} (${Math.floor(share * 100)} %)`);
    };
    const logs: CopiedLog[] = [];
    const open = async (name: "source" | "target", url: string) => {
      const log = new CopiedLog(name, url, { waitSeconds, signal, writeNote });
      logs.push(log);
      await log.open();
      return log;
    };
    try {
      const source = await open("source", EVENTSTORE_URL);
      const target = await open("target", COPY_TARGET_URL);
      const { copied, equal } = await copyLog({ source, target, verifyOnly, signal, onProgress });
      const end = equal ? "complete" : "interrupted";
      if (json) await terminal.writeOutput(JSON.stringify({ command: COMMAND_NAME, end, copied, ...equal }));
      if (!equal) {
        writeNote(`interrupted after ${copied} copied events; run the same command again to continue`);
        return EXIT_CODE.interrupted;
      }
      if (json) return EXIT_CODE.done;
      if (!verifyOnly) await terminal.writeOutput(`${COMMAND_NAME}: ${formatCount(copied, "event")} copied`);
      await terminal.writeOutput(
        `${COMMAND_NAME}: the logs are equal: ${formatCount(equal.events, "event")}, SHA-256 ${equal.sha256}`,
      );
      return EXIT_CODE.done;
    } finally {
      for (const log of logs) await log.close();
    }
  },
});
