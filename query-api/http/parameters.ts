import { z } from "zod";
import { appointmentStatuses } from "../../shared/domain/appointment/appointment.ts";
import type { ErrorDetail } from "../../shared/domain/domain-error.ts";
import { describeIssue } from "../../shared/domain/validation/describe-issue.ts";
import { ApiError } from "../../shared/http/api-error.ts";

/**
 * A query parameter with its description and its parser. The parser replaces invalid values instead of failing, except
 * for filters.
 */
export interface QueryParameter<Value = unknown> {
  description: string;
  /** Schema of valid values, including the default value. */
  schema: z.ZodType;
  /** If true, invalid values and repeated parameters are refused. */
  isFilter?: true;
  /**
   * @param text value in the request; undefined if the parameter is missing or repeated
   * @throws {InvalidFilterError} only if the parameter is a filter
   */
  parse(text: string | undefined): Value;
}

/** The value of a filter is invalid. The message describes the problem, such as `must be a UUID`. */
class InvalidFilterError extends Error {
  override readonly name = "InvalidFilterError";
}

export type QueryParameters = Readonly<Record<string, QueryParameter>>;

/** Parsed values of declared parameters. */
export type ParameterValues<Declared extends QueryParameters> = {
  [Name in keyof Declared]: ReturnType<Declared[Name]["parse"]>;
};

/**
 * Parses the declared parameters of a query string. A repeated parameter counts as missing, unless it is a filter.
 *
 * @throws {ApiError} 400 `validation_failed` with all invalid filters
 */
export function readParameters<Declared extends QueryParameters>(
  declarations: Declared,
  query: Readonly<Record<string, string | string[] | undefined>>,
): ParameterValues<Declared> {
  const details: ErrorDetail[] = [];
  const parsedEntries = Object.entries(declarations).map(([name, parameter]) => {
    const text = query[name];
    try {
      if (parameter.isFilter && Array.isArray(text)) throw new InvalidFilterError("must not be repeated");
      return [name, parameter.parse(typeof text === "string" ? text : undefined)];
    } catch (error) {
      if (!(error instanceof InvalidFilterError)) throw error;
      details.push({ path: name, message: error.message });
      return [name, undefined];
    }
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
    parse(text) {
      if (text === undefined) return null;
      const result = schema.safeParse(text);
      if (result.success) return result.data;
      const [issue] = result.error.issues;
      throw new InvalidFilterError(issue ? describeIssue(issue) : "is invalid");
    },
  };
}

/** Declares an integer parameter. Values outside the range are clamped. Other invalid values are replaced by the default. */
function createIntegerParameter(
  description: string,
  range: { minimum: number; maximum: number; default: number },
): QueryParameter<number> {
  return {
    description,
    schema: z.int().min(range.minimum).max(range.maximum).default(range.default),
    parse(text) {
      if (text === undefined || !/^-?\d+$/.test(text)) return range.default;
      return Math.min(Math.max(Number(text), range.minimum), range.maximum);
    },
  };
}

export function createLimitParameter(maximum: number, defaultValue: number): QueryParameter<number> {
  const description =
    "Maximum number of records to return. A value outside the range is replaced by the nearest allowed value.";
  return createIntegerParameter(description, { minimum: 1, maximum, default: defaultValue });
}

/** Number of records to skip. The maximum is the largest Postgres `integer`, which every client can represent. */
export const offsetParameter = createIntegerParameter("Number of records to skip.", {
  minimum: 0,
  maximum: 2_147_483_647,
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
