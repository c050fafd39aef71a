import { type LevelWithSilent, type Logger, pino } from "pino";
import { LogOutput } from "./log-output.ts";

export type { Logger } from "pino";

/** What never reaches a log line, wherever a caller might have put it. */
const REDACTED = [
  "authorization",
  "cookie",
  "client_secret",
  "clientSecret",
  "access_token",
  "secret",
  "password",
];

const STDOUT = 1;

/**
 * Structured logs, one JSON object a line, on stdout. A log call never fails: lines that cannot be written are counted,
 * and one line reports them when writing works again.
 *
 * @param service name of the process that writes
 * @param level least severe lines that are written; the line about lost lines is never less severe
 */
export function createLogger(service: string, level: string): Logger {
  const output = new LogOutput(STDOUT, (lost, since) =>
    logger[logger.isLevelEnabled("warn") ? "warn" : (logger.level as LevelWithSilent)](
      { lost, since },
      "log lines were lost because the log could not be written",
    ),
  );
  const logger = pino(
    {
      level,
      base: { service },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (label) => ({ level: label }) },
      redact: { paths: REDACTED.flatMap((key) => [key, `*.${key}`, `*.*.${key}`]), censor: "[redacted]" },
      serializers: { error: describeError },
    },
    output,
  );
  return logger;
}

/** An error's message, for eyes that must see no data. */
export function safeMessage(error: Error): string {
  // Postgres quotes the value that it refuses (SQLSTATE classes 22 and 23), which may be a patient's.
  const { code } = error as { code?: unknown };
  return /^2[23]...$/.test(String(code)) ? "the database refused a value" : error.message;
}

/** What an operator needs of an error: its name, message, code and causes. No stack, no bound values. */
function describeError(error: unknown): unknown {
  if (!(error instanceof Error)) return String(error);
  const code = (error as { code?: unknown }).code;
  return {
    name: error.name,
    message: safeMessage(error),
    ...(code === undefined ? {} : { code }),
    ...(error.cause === undefined ? {} : { cause: describeError(error.cause) }),
  };
}
