import { z } from "zod";
import { appointmentStatuses } from "../../shared/domain/appointment/appointment.ts";

/** A query parameter with its description and its parser. The parser replaces invalid values instead of failing. */
export interface QueryParameter<Value = unknown> {
  description: string;
  /** Schema of valid values, including the default value. */
  schema: z.ZodType;
  /** @param text value in the request; undefined if the parameter is missing or repeated */
  parse(text: string | undefined): Value;
}

export type QueryParameters = Readonly<Record<string, QueryParameter>>;

/** Parsed values of declared parameters. */
export type ParameterValues<Declared extends QueryParameters> = {
  [Name in keyof Declared]: ReturnType<Declared[Name]["parse"]>;
};

/** Parses the declared parameters of a query string. A repeated parameter counts as missing. */
export function readParameters<Declared extends QueryParameters>(
  declarations: Declared,
  query: Readonly<Record<string, string | string[] | undefined>>,
): ParameterValues<Declared> {
  const parsedEntries = Object.entries(declarations).map(([name, parameter]) => {
    const text = query[name];
    return [name, parameter.parse(typeof text === "string" ? text : undefined)];
  });
  return Object.fromEntries(parsedEntries);
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
