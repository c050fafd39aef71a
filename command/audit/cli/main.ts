/** The auditors' command line: `npm run audit -- <command> [options]`. */
import { once } from "node:events";
import { readKey } from "./read-key.ts";
import { runAudit } from "./run-audit.ts";

const { stdin, stdout, stderr, env } = process;

// Whoever reads the list may have seen enough, as `head` has.
stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));

process.exitCode = await runAudit(process.argv.slice(2), {
  env,
  async write(text) {
    if (!stdout.write(text)) await once(stdout, "drain");
  },
  err: (line) => stderr.write(`${line}\n`),
  redraw: stderr.isTTY ? (text) => stderr.write(`\r\x1b[K${text}`) : undefined,
  columns: stdout.isTTY ? stdout.columns : undefined,
  key: stdin.isTTY && stdout.isTTY ? () => readKey(stdin) : undefined,
});
