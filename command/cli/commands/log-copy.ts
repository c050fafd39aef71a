import { defineCommand } from "../../../shared/command-line/command-line.ts";
import { jsonOption, option } from "../../../shared/command-line/option.ts";
import { LOG_COPY_HELP } from "../log-copy/log-copy-help.ts";
import { runLogCopy } from "../log-copy/run-log-copy.ts";
import { logWaitOption } from "../options.ts";

export const logCopyCommand = defineCommand({
  name: "log copy",
  summary: "Copies the event log to another server, and verifies the copy.",
  options: {
    verifyOnly: option.flag("compare the logs without copying"),
    logWait: logWaitOption,
    json: jsonOption,
  },
  example: "",
  details: LOG_COPY_HELP,
  run: runLogCopy,
});
