import { type LevelWithSilent, type Logger, pino } from "pino";
import { LogOutput } from "./log-output.ts";

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
  // In SQLSTATE classes 22 and 23, Postgres quotes the refused value, which may be patient data.
  const { code } = error as { code?: unknown };
  return /^2[23]...$/.test(String(code)) ? "the database refused a value" : error.message;
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
