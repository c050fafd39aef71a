import type { Logger } from "../runtime/logger.ts";

type Fields = Record<string, unknown>;

/**
 * Writes the log lines of one request, which all contain the request's fields. A child logger of pino would format the
 * fields again each time fields are added.
 */
export class RequestLog {
  readonly #logger: Logger;
  readonly #fields: Fields;

  /** @param fields the first fields of the request */
  constructor(logger: Logger, fields: Fields) {
    this.#logger = logger;
    this.#fields = fields;
  }

  /** Adds fields to all later lines. */
  addFields(fields: Fields): void {
    Object.assign(this.#fields, fields);
  }

  /** Writes a line with the request's fields and the given fields. */
  write(level: "debug" | "info" | "warn" | "error", fields: Fields, message: string): void {
    this.#logger[level]({ ...this.#fields, ...fields }, message);
  }
}
