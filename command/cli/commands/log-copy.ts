import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { runLogCopy } from "../log-copy/run-log-copy.ts";
import { createLogWaitOption } from "../options.ts";

const LOG_COPY_HELP = `The source is the log at EVENTSTORE_URL, the target is the log at COPY_TARGET_URL, which has the form
esdb://admin:<password>@db.example:2113. The target must be empty, or contain
the first events of the source. Stream, revision, id, type, content type, data and metadata of each event stay
unchanged, and so does the order of all events. Log positions and the times of storage are those of the target. System
streams of the source are not copied, except for the metadata of other streams.

The copy can run while the services write to the source. It ends when it has caught up. To copy later events, or to
continue a copy that was stopped or killed, run it again. Each run compares the whole target with the source, and prints
the number of events in both logs and a SHA-256 hash of them.

With --json, the result is printed as one line:
  {"command": "log copy", "end": "complete", "copied": 7, "equal": true, "source": {"events": 9, "sha256": "..."}, "target": {"events": 9, "sha256": "..."}}
"end" is complete or interrupted. An interrupted copy has no hashes, and "equal" is null.

Exit codes: 0 the logs are equal, 1 the logs differ, or any other error, 2 invalid option or setting,
3 the target is not a copy of the source, or an event cannot be copied unchanged, 4 a log is unavailable,
130 interrupted.`;

export const logCopyCommand = defineCommand({
  name: "log copy",
  summary: "Copies the event log to another server, and verifies the copy.",
  options: {
    verifyOnly: option.flag("compare the logs without copying"),
    logWait: createLogWaitOption(300),
    json: jsonOption,
  },
  example: "",
  details: LOG_COPY_HELP,
  run: runLogCopy,
});
