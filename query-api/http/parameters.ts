import { z } from "zod";
import { appointmentStatuses } from "../../shared/domain/appointment/appointment.ts";
import type { ErrorDetail } from "../../shared/domain/domain-error.ts";
import { uuid } from "../../shared/domain/events/fields.ts";
import { DAY_MS } from "../../shared/domain/time/local-time.ts";
import { type Instant, parseRfc3339, toInstant } from "../../shared/domain/time/rfc3339.ts";
import { describeIssue } from "../../shared/domain/validation/describe-issue.ts";
import { ApiError } from "../../shared/http/api-error.ts";

/** Query parameter. A filter refuses an invalid value. Any other parameter uses a valid value instead. */
interface QueryParameter<Value = unknown> {
  description: string;
  /** Schema for the API reference, with the default value. */
  schema: z.ZodType;
  isFilter?: true;
  /**
   * @param text value in the request; undefined if the parameter is missing or repeated
   * @param refuse only called by a filter, with a description of the problem, such as `must be a UUID`
   */
  parse(text: string | undefined, refuse: (problem: string) => void): Value;
}

export type QueryParameters = Readonly<Record<string, QueryParameter>>;

export type ParameterValues<Declared extends QueryParameters> = {
  [Name in keyof Declared]: ReturnType<Declared[Name]["parse"]>;
};

/**
 * Parses the declared parameters of a query string. A repeated filter is refused. Any other repeated parameter counts
 * as missing.
 *
 * @throws {ApiError} 400 `validation_failed` with all invalid filters
 */
export function readParameters<Declared extends QueryParameters>(
  declarations: Declared,
  query: Readonly<Record<string, string | string[] | undefined>>,
): ParameterValues<Declared> {
  const details: ErrorDetail[] = [];
  const parsedEntries = Object.entries(declarations).map(([name, { isFilter, parse }]) => {
    const text = query[name];
    const refuse = (message: string) => void details.push({ path: name, message });
    if (isFilter && Array.isArray(text)) refuse("must not be repeated");
    return [name, parse(typeof text === "string" ? text : undefined, refuse)];
  });
  if (details.length > 0) throw new ApiError(400, "validation_failed", { details });
  return Object.fromEntries(parsedEntries);
}

/**
 * Declares a filter. An invalid value is refused, because a list without the filter would mislead the caller.
 *
 * @returns a parameter whose value is null if it is missing
 */
export function createFilterParameter<Schema extends z.ZodType>(
  description: string,
  schema: Schema,
): QueryParameter<z.output<Schema> | null> {
  return {
    description: `${description} An invalid value returns 400.`,
    schema: schema.optional(),
    isFilter: true,
    parse(text, refuse) {
      if (text === undefined) return null;
      const result = schema.safeParse(text);
      if (result.success) return result.data;
      for (const issue of result.error.issues.slice(0, 1)) refuse(describeIssue(issue));
      return null;
    },
  };
}

export const animalIdParameter = createFilterParameter("Returns only records about this animal.", uuid);

/** Declares an integer parameter. Values outside the range are clamped, other invalid values become the default. */
export function createIntegerParameter(
  description: string,
  range: { minimum: number; maximum: number; default: number },
): QueryParameter<number> {
  return {
    description: `${description} A value outside the range is replaced by the nearest allowed value, and any other invalid value by the default.`,
    schema: z.int().min(range.minimum).max(range.maximum).default(range.default),
    parse(text) {
      if (text === undefined || !/^-?\d+$/.test(text)) return range.default;
      return Math.min(Math.max(Number(text), range.minimum), range.maximum);
    },
  };
}

export function createLimitParameter(maximum: number, defaultValue: number): QueryParameter<number> {
  return createIntegerParameter("Maximum number of records to return.", { minimum: 1, maximum, default: defaultValue });
}

/** Number of records to skip. The maximum is the largest Postgres `integer`, which every client can represent. */
export const offsetParameter = createIntegerParameter("Number of records to skip.", {
  minimum: 0,
  maximum: 2_147_483_647,
  default: 0,
});

/** Maximum wait that a caller can request, in seconds. It is below the usual 60-second timeout of proxies. */
const MAX_WAIT_SECONDS = 25;

export const waitParameter = createIntegerParameter("Maximum number of seconds to wait for the first event.", {
  minimum: 0,
  maximum: MAX_WAIT_SECONDS,
  default: 0,
});

function createTimeParameter(description: string): QueryParameter<string | undefined> {
  return { description, schema: z.iso.datetime({ offset: true }).optional(), parse: (text) => text };
}

/** Start and end of a time window, as text. `toTimeWindow` validates them together. */
export const windowParameters = {
  from: createTimeParameter(
    "Start of the window, inclusive. If it is missing or invalid, the window starts at the current time.",
  ),
  to: createTimeParameter(
    "End of the window, exclusive. It must be later than `from`, by at most 31 days. If it is missing or invalid, the window ends seven days after `from`.",
  ),
};

const status = z.enum(appointmentStatuses).optional();

export const statusParameter: QueryParameter<string | null> = {
  description: "Returns only appointments with this status. An invalid value is ignored.",
  schema: status,
  parse: (text) => status.safeParse(text).data ?? null,
};

export function createLiteralTrueParameter(description: string): QueryParameter<boolean> {
  return { description, schema: z.boolean().default(false), parse: (text) => text === "true" };
}

export const MAX_WINDOW_DAYS = 31;

const DEFAULT_WINDOW_DAYS = 7;

/** Earliest and latest time that both RFC 3339 and Postgres support, in milliseconds since 1970. */
const EARLIEST_TIME = Date.parse("0001-01-01T00:00:00.000Z");
const LATEST_TIME = Date.parse("9999-12-31T23:59:59.999Z");

/** Time window that includes `from` and excludes `to`. */
interface TimeWindow {
  from: Instant;
  to: Instant;
}

/**
 * Returns the time window for a caller's parameters. If `from` is missing or invalid, the window starts now. A valid
 * `to` is later than `from`, by at most 31 days. If `to` is missing or invalid, the window ends seven days after
 * `from`, and at the latest with the year 9999.
 *
 * @param bounds start and end as text; undefined if absent
 * @param now milliseconds since 1970
 */
export function toTimeWindow(bounds: { from: string | undefined; to: string | undefined }, now: number): TimeWindow {
  const from = parseTime(bounds.from) ?? now;
  const to = parseTime(bounds.to);
  const isToValid = to !== undefined && to > from && to <= from + MAX_WINDOW_DAYS * DAY_MS;
  const defaultTo = Math.min(from + DEFAULT_WINDOW_DAYS * DAY_MS, LATEST_TIME);
  return { from: toInstant(from), to: toInstant(isToValid ? to : defaultTo) };
}

/** Parses a time that both RFC 3339 and Postgres support. Returns milliseconds since 1970; undefined if it is invalid. */
export function parseTime(text: string | undefined): number | undefined {
  const time = text === undefined ? undefined : parseRfc3339(text);
  return time !== undefined && time >= EARLIEST_TIME && time <= LATEST_TIME ? time : undefined;
}
