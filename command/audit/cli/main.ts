import { once } from "node:events";
import type { ReadStream } from "node:tty";
import { runAudit } from "./run-audit.ts";

/** The auditors' command line: `npm run audit -- <command> [options]`. */

const { stdin, stdout, stderr, env } = process;

// A reader such as `head` may close the output early.
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

/** Keys that quit, including Ctrl-C and Ctrl-D, which a terminal in raw mode passes on. */
const END = new Set(["q", "Q", "\u0003", "\u0004"]);

/** Waits for Enter or Space (next) or q (end). Other keys are ignored. */
export async function readKey(stdin: ReadStream): Promise<"next" | "end"> {
  stdin.setRawMode(true);
  try {
    for (;;) {
      stdin.resume();
      const [keys] = (await once(stdin, "data")) as [Buffer];
      for (const key of keys.toString("utf8")) {
        if (END.has(key)) return "end";
        if (key === "\r" || key === "\n" || key === " ") return "next";
      }
    }
  } finally {
    stdin.setRawMode(false);
    stdin.pause();
  }
}
