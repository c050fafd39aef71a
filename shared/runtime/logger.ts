import fs from "node:fs";
import { type LevelWithSilent, type Logger, pino } from "pino";
import { isValueRefused } from "./failures.ts";

export type { Logger } from "pino";

/** Names of members whose values are redacted, at the top level of a log line and at the two levels below. */
const REDACTED_MEMBERS = new Set([
  "authorization",
  "cookie",
  "client_secret",
  "clientSecret",
  "access_token",
  "secret",
  "password",
]);
const MAX_REDACTED_DEPTH = 2;

const STDOUT_DESCRIPTOR = 1;

/**
 * Creates a logger that writes one JSON object per line to stdout. A log call never fails. Lines that cannot be
 * written are counted, and one line reports their number when writing succeeds again.
 *
 * @param level minimum level of the lines. The report about lost lines is written at any level
 */
export function createLogger(service: string, level: string): Logger {
  const output = new LogOutput(STDOUT_DESCRIPTOR, (lostLineCount, since) =>
    logger[logger.isLevelEnabled("warn") ? "warn" : (logger.level as LevelWithSilent)](
      { lost: lostLineCount, since },
      "log lines were lost because the log could not be written",
    ),
  );
  const logger = pino(
    {
      level,
      base: { service },
      timestamp: pino.stdTimeFunctions.isoTime,
      // pino's own redaction with wildcards takes four times as long as all other work for a line.
      formatters: { level: (label) => ({ level: label }), bindings: redact, log: redact },
      serializers: { error: describeError },
    },
    output,
  );
  return logger;
}

/** Redacts the values of the members named in `REDACTED_MEMBERS`. Returns the same object if it needs no redaction. */
function redact(members: Record<string, unknown>, depth = 0): Record<string, unknown> {
  const needsNoCopy = Object.keys(members).every(
    (name) => !REDACTED_MEMBERS.has(name) && (depth === MAX_REDACTED_DEPTH || !isPlainObject(members[name])),
  );
  if (needsNoCopy) return members;
  const redactedEntries = Object.entries(members).map(([name, value]) => {
    if (REDACTED_MEMBERS.has(name)) return [name, "[redacted]"];
    return [name, depth < MAX_REDACTED_DEPTH && isPlainObject(value) ? redact(value, depth + 1) : value];
  });
  return Object.fromEntries(redactedEntries);
}

function isPlainObject(value: unknown): value is Record<string, unknown> {
  if (typeof value !== "object" || value === null) return false;
  const prototype = Object.getPrototypeOf(value);
  return prototype === null || prototype === Object.prototype;
}

/** Returns an error's message, or a replacement if the message may contain stored data. */
export function getSafeMessage(error: Error): string {
  // Postgres quotes the refused value, which may be patient data.
  return isValueRefused(error) ? "the database refused a value" : error.message;
}

/** Describes an error for the log: name, message, code and causes, without the stack. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const code = (error as { code?: unknown }).code;
  return {
    name: error.name,
    message: getSafeMessage(error),
    ...(code === undefined ? {} : { code }),
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}

/** Maximum length of the text that waits to be written. Lines that exceed this limit are lost. */
const MAX_WAITING_CHARACTERS = 1_048_576;

/** Minimum interval between two writes. Lines that arrive in between are written together. */
const WRITE_INTERVAL_MS = 10;

/**
 * Delay before a failed write is repeated. The delay is shorter for a full pipe, because the pipe's reader frees space
 * continuously.
 */
const RETRY_DELAY_MS = 500;
const FULL_PIPE_RETRY_DELAY_MS = 10;

const unwrittenOutputs = new Set<LogOutput>();
process.on("exit", () => {
  for (const output of unwrittenOutputs) output.flush();
});

/**
 * Writes log lines to a file descriptor, in order and without blocking. Failures never reach the caller. While the
 * disk or the pipe is full, lines wait up to a limit, and further lines are counted as lost. When writing succeeds
 * again, `onLost` receives the number of lost lines once.
 */
class LogOutput {
  readonly #descriptor: number;
  readonly #onLost: (lineCount: number, since: Date) => void;
  #pendingText = "";
  /** Bytes that are being written, or that will be written again after a failure. */
  #unwrittenBytes: Buffer | undefined;
  #isWriting = false;
  #timer: NodeJS.Timeout | undefined;
  #lostLines = 0;
  #lostSince = new Date(0);

  /**
   * @param onLost receives the number of lost lines and the time of the first lost line. The callback may write a line
   */
  constructor(descriptor: number, onLost: (lineCount: number, since: Date) => void) {
    this.#descriptor = descriptor;
    this.#onLost = onLost;
  }

  /** Writes one line of text, which must end with a line feed. */
  write(line: string): void {
    if (this.#pendingText.length + line.length > MAX_WAITING_CHARACTERS) {
      if (this.#lostLines === 0) this.#lostSince = new Date();
      this.#lostLines += 1;
      return;
    }
    this.#pendingText += line;
    if (!this.#isWriting && !this.#timer) this.#writeNext();
  }

  /** Writes as much of the waiting text as possible, synchronously, before the process ends. */
  flush(): void {
    // A write in progress continues in another thread, so its bytes must not be written a second time.
    const previousBytes = this.#isWriting || !this.#unwrittenBytes ? [] : [this.#unwrittenBytes];
    try {
      for (let bytes = Buffer.concat([...previousBytes, Buffer.from(this.#pendingText)]); bytes.length > 0; )
        bytes = bytes.subarray(fs.writeSync(this.#descriptor, bytes));
    } catch {
      // The process is ending, so the failure cannot be reported.
    }
  }

  #writeNext(): void {
    if (!this.#unwrittenBytes) {
      if (this.#pendingText === "") {
        this.#reportLost();
        return;
      }
      this.#unwrittenBytes = Buffer.from(this.#pendingText);
      this.#pendingText = "";
      unwrittenOutputs.add(this);
    }
    const bytes = this.#unwrittenBytes;
    this.#isWriting = true;
    fs.write(this.#descriptor, bytes, (error, writtenLength) => {
      this.#isWriting = false;
      if (error) {
        this.#writeLater(error.code === "EAGAIN" ? FULL_PIPE_RETRY_DELAY_MS : RETRY_DELAY_MS);
        return;
      }
      this.#unwrittenBytes = writtenLength < bytes.length ? bytes.subarray(writtenLength) : undefined;
      if (this.#unwrittenBytes) this.#writeNext();
      else this.#writeLater(WRITE_INTERVAL_MS);
    });
  }

  #writeLater(delayMs: number): void {
    const write = () => {
      this.#timer = undefined;
      this.#writeNext();
    };
    this.#timer = setTimeout(write, delayMs).unref();
  }

  #reportLost(): void {
    unwrittenOutputs.delete(this);
    if (this.#lostLines === 0) return;
    const lostLineCount = this.#lostLines;
    this.#lostLines = 0;
    this.#onLost(lostLineCount, this.#lostSince);
  }
}
