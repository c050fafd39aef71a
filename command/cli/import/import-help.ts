import path from "node:path";

/** Path of the example, also in the built product. */
const EXAMPLE_FILE = path.join(import.meta.dirname, "examples", "move-in.ndjson");

/** Help text of `import`, shown between its options and its example. */
export const IMPORT_HELP = `Each line contains a command and its options in camelCase. Every id is required:
  {"command": "customer register", "id": "5f0e8a52-7a3c-4be5-9d0a-8a4a62f7c002", "clinic": "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001", "fullName": "Ada Example"}

To migrate a clinic, import its past appointments with their final status, and its future appointments. Partners are not
notified. "requestedAt", "statusAt", "customer" and "resources" are optional:
  {"command": "appointment import", "id": "2d9b7e31-61a0-4c88-9d35-3c1f8a7e0007", "clinic": "0b54a8f0-62ff-4a34-a5a5-3f2fc6f3a001", "branch": "7c2f9d14-0d7e-4c07-9a6f-1b8e4f5a0005", "animal": "9c1d6c1e-5b60-4a7b-8a38-6f2f6a1e0003", "scheduledAt": "2024-03-01T09:00:00+01:00", "status": "completed"}
A complete example: ${EXAMPLE_FILE}

The file must be UTF-8, with at most 1,000,000 lines of up to 1 MiB each. The import reports each
failed line and continues. Later lines that change the same object are not applied. If the event log is unavailable, the
import waits and retries. Ctrl-C stops the import after the lines in progress. To finish a stopped import, run it again.

With --json, each failed line is printed when it fails, so line numbers may be out of order. "field" is a JSONPath:
  {"line": 7, "code": "invalid", "problems": [{"field": "$.fullName", "reason": "is missing"}]}
"code" is "invalid" for an invalid line, or the code of the rule that refused the command. The last line contains the
totals:
  {"end": "complete", "lines": 9, "applied": 8, "alreadyApplied": 0, "invalid": 1, "refused": 0, "failed": 1, "left": 0, "dryRun": false, "seconds": 0.2}
"end" is complete, interrupted or failed.

Exit codes: 0 all lines applied, 2 some lines are invalid or the file cannot be read, 3 some lines were refused,
4 a server is unavailable, 130 interrupted, 1 any other error.`;
