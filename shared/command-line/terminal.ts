import { once } from "node:events";
import fs from "node:fs";
import type { ReadStream } from "node:tty";
import { EXIT_CODE } from "./failure.ts";

/** Interface between a command and its process: environment variables, streams, keyboard and signals. */
export interface Terminal {
  env: NodeJS.ProcessEnv;
  stdin: NodeJS.ReadableStream;
  /** Writes a line to standard output. Resolves when more lines can be written. */
  writeOutput(line: string): Promise<void>;
  /** Writes a line to standard error. Resolves when more lines can be written. */
  writeError(line: string): Promise<void>;
  /**
   * Shows a text as the progress line, in place of the previous one. The line disappears when the next line is written.
   * Undefined if standard error is not a terminal.
   */
  redraw: ((text: string) => void) | undefined;
  /** Width of standard output in characters; undefined if standard output is not a terminal. */
  columns: number | undefined;
  /** Waits for the user to press a key; undefined if standard input or output is not a terminal. */
  readKey: (() => Promise<"next" | "end">) | undefined;
  /**
   * Returns a signal that the first Ctrl-C or SIGTERM aborts. The caller must then stop in an orderly way. A second
   * Ctrl-C or SIGTERM ends the process immediately.
   */
  catchInterruption(): AbortSignal;
}

/**
 * Runs a command line in this process, and ends the process with the exit code.
 *
 * @param run runs the command line with the arguments after the program's name, and returns the exit code
 */
export async function runInProcess(run: (args: string[], terminal: Terminal) => Promise<number>): Promise<never> {
  const { stdin, stdout, stderr, env } = process;
  stderr.on("error", () => process.exit(EXIT_CODE.failed));
  stdout.on("error", ({ code, message }: NodeJS.ErrnoException) => {
    // A program that reads the output, such as `head`, may close the pipe early. The command then ends unfinished.
    if (code !== "EPIPE") fs.writeSync(stderr.fd, `standard output cannot be written: ${message}\n`);
    process.exit(EXIT_CODE.failed);
  });
  let hasProgressLine = false;
  const removeProgressLine = () => {
    if (hasProgressLine) stderr.write("\r\x1b[K");
    hasProgressLine = false;
  };
  const redraw = (text: string) => {
    // A line that the terminal wraps could not be removed.
    stderr.write(`\r\x1b[K${[...text].slice(0, stderr.columns - 1).join("")}`);
    hasProgressLine = true;
  };
  const createLineWriter = (stream: NodeJS.WriteStream) => async (line: string) => {
    removeProgressLine();
    if (!stream.write(`${line}\n`)) await once(stream, "drain");
  };
  const exitCode = await run(process.argv.slice(2), {
    env,
    stdin,
    writeOutput: createLineWriter(stdout),
    writeError: createLineWriter(stderr),
    redraw: stderr.isTTY ? redraw : undefined,
    columns: stdout.isTTY ? stdout.columns : undefined,
    readKey: stdin.isTTY && stdout.isTTY ? () => readKey(stdin) : undefined,
    catchInterruption,
  });
  removeProgressLine();
  for (const stream of [stdout, stderr]) await new Promise((resolve) => stream.write("", resolve));
  // A pending request to an unresponsive server would keep the process alive.
  process.exit(exitCode);
}

function catchInterruption(): AbortSignal {
  const controller = new AbortController();
  const signals = ["SIGINT", "SIGTERM"] as const;
  const abort = () => {
    for (const signal of signals) process.off(signal, abort);
    controller.abort();
  };
  for (const signal of signals) process.on(signal, abort);
  return controller.signal;
}

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

/** Shows a text as the progress line. If standard error is not a terminal, writes a new line. */
export function showProgress({ redraw, writeError }: Pick<Terminal, "redraw" | "writeError">, text: string): void {
  if (redraw) redraw(text);
  else void writeError(text);
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: the expression finds control characters on purpose
const CONTROL_CHARACTERS = /[\u0000-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Escapes the control characters in stored text, because a terminal would interpret them. */
export function escapeControlCharacters(text: string): string {
  return text.replaceAll(CONTROL_CHARACTERS, (character) => {
    const codePoint = character.codePointAt(0) ?? 0;
    return `\\u${codePoint.toString(16).padStart(4, "0")}`;
  });
}
