import { z } from "zod";
import { appointmentStatuses } from "../../shared/domain/appointment/appointment.ts";

/** A query parameter: what callers are told of it, and how it is read. Reading never fails, it falls back. */
export interface Parameter<Value = unknown> {
  description: string;
  /** The values that take effect as they are, and the default. */
  schema: z.ZodType;
  /** @param given the parameter's text; undefined where it is missing or given more than once */
  read(given: string | undefined): Value;
}

export type Parameters = Readonly<Record<string, Parameter>>;

/** The values of declared parameters. */
export type ParameterValues<Declared extends Parameters> = {
  [Name in keyof Declared]: ReturnType<Declared[Name]["read"]>;
};

/** Reads the declared parameters from a query string. One that is given more than once counts as missing. */
export function readParameters<Declared extends Parameters>(
  declared: Declared,
  query: Readonly<Record<string, string | string[] | undefined>>,
): ParameterValues<Declared> {
  const values = Object.entries(declared).map(([name, parameter]) => {
    const given = query[name];
    return [name, parameter.read(typeof given === "string" ? given : undefined)];
  });
  return Object.fromEntries(values);
}

/** A whole number: outside the range it is clamped; anything else takes the default. */
function integerParameter(description: string, range: { minimum: number; maximum: number; default: number }) {
  return {
    description,
    schema: z.int().min(range.minimum).max(range.maximum).default(range.default),
    read(given) {
      if (given === undefined || !/^-?\d+$/.test(given)) return range.default;
      return Math.min(Math.max(Number(given), range.minimum), range.maximum);
    },
  } satisfies Parameter<number>;
}

export function limitParameter(maximum: number, byDefault: number): Parameter<number> {
  return integerParameter("Most records to return.", { minimum: 1, maximum, default: byDefault });
}

/** Postgres's largest integer is as good as no bound, and a number that every client can hold. */
export const offsetParameter: Parameter<number> = integerParameter("Records to leave out, from the start.", {
  minimum: 0,
  maximum: 2_147_483_647,
  default: 0,
});

const dateTime = z.iso.datetime({ offset: true }).optional();

/** The bounds of a time window, as given: `timeWindow` judges them together. */
export const windowParameters = {
  from: {
    description: "Start of the window, inclusive. When missing or invalid, the current time.",
    schema: dateTime,
    read: (given) => given,
  },
  to: {
    description:
      "End of the window, exclusive. When missing, invalid, not later than `from`, or more than 31 days after it: seven days after `from`.",
    schema: dateTime,
    read: (given) => given,
  },
} as const satisfies Record<string, Parameter<string | undefined>>;

const statuses: readonly string[] = appointmentStatuses;

export const statusParameter: Parameter<string | null> = {
  description: "Only appointments of this status. An unknown value is ignored.",
  schema: z.enum(appointmentStatuses).optional(),
  read: (given) => (given !== undefined && statuses.includes(given) ? given : null),
};

export function literalTrueParameter(description: string): Parameter<boolean> {
  return { description, schema: z.boolean().default(false), read: (given) => given === "true" };
}
