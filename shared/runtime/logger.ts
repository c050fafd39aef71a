import { type LevelWithSilent, type Logger, pino } from "pino";
import { LogOutput } from "./log-output.ts";

export type { Logger } from "pino";

/** Names of members whose values are redacted in log lines. */
const REDACTED_MEMBERS = [
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
 * Creates a logger that writes one JSON object per line to stdout. A log call never fails. Lines that cannot be
 * written are counted, and one line reports their number when writing succeeds again.
 *
 * @param service name of the process
 * @param level minimum level of the lines. The report about lost lines is written at any level
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
      redact: {
        paths: REDACTED_MEMBERS.flatMap((key) => [key, `*.${key}`, `*.*.${key}`]),
        censor: "[redacted]",
      },
      serializers: { error: describeError },
    },
    output,
  );
  return logger;
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
