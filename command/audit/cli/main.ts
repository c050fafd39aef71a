import { once } from "node:events";
import type { ReadStream } from "node:tty";
import { runAudit } from "./run-audit.ts";

/** The auditors' command line: `clinic audit <command> [options]`. */

const { stdin, stdout, stderr, env } = process;

// A program that reads the output, such as `head`, may close the pipe early. That is not an error.
stdout.on("error", (error: NodeJS.ErrnoException) => process.exit(error.code === "EPIPE" ? 0 : 1));

process.exitCode = await runAudit(process.argv.slice(2), {
  env,
  async write(text) {
    if (!stdout.write(text)) await once(stdout, "drain");
  },
  writeError: (line) => stderr.write(`${line}\n`),
  redraw: stderr.isTTY ? (text) => stderr.write(`\r\x1b[K${text}`) : undefined,
  columns: stdout.isTTY ? stdout.columns : undefined,
  readKey: stdin.isTTY && stdout.isTTY ? () => readKey(stdin) : undefined,
});

/** Keys that quit. A terminal in raw mode passes Ctrl-C and Ctrl-D on as ordinary keys. */
const QUIT_KEYS = new Set(["q", "Q", "\u0003", "\u0004"]);

/** Waits for a key: Enter or Space returns `next`, a quit key returns `end`. Other keys are ignored. */
async function readKey(stdin: ReadStream): Promise<"next" | "end"> {
  stdin.setRawMode(true);
  try {
    for (;;) {
      stdin.resume();
      const [pressedKeys] = (await once(stdin, "data")) as [Buffer];
      for (const key of pressedKeys.toString("utf8")) {
        if (QUIT_KEYS.has(key)) return "end";
        if (key === "\r" || key === "\n" || key === " ") return "next";
      }
    }
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
  }
}
