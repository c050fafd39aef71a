import { z } from "zod";
import { uuid } from "../domain/events/fields.ts";
import { listIssues } from "../domain/validation/describe-issue.ts";
import { findJsonLoss, isExactNumber } from "../domain/validation/json-loss.ts";
import { InputError } from "./failure.ts";

export interface Option<Schema extends z.ZodType = z.ZodType> {
  schema: Schema;
  help: string;
  /** Placeholder for the value in the help text; undefined for a flag, which has no value. */
  placeholder: string | undefined;
  /**
   * Converts command-line text to the JSON type that the schema expects. Returns text that it cannot convert unchanged.
   */
  parseText(text: string): unknown;
  /** If true, the command line generates an id if the option is omitted. */
  isGenerated: boolean;
  /** If true, the option is a positional argument: a value without an option name. */
  isPositional: boolean;
}

export type Options = Record<string, Option>;

export type OptionValues<O extends Options> = { [Name in keyof O]: z.output<O[Name]["schema"]> };

interface OptionProblem {
  /** Path to the invalid value within the options; empty if the problem concerns all options together. */
  path: readonly PropertyKey[];
  message: string;
}

function createOption<Schema extends z.ZodType>(
  schema: Schema,
  help: string,
  placeholder: string | undefined,
  parseText: (text: string) => unknown,
): Option<Schema> {
  return { schema, help, placeholder, parseText, isGenerated: false, isPositional: false };
}

export const option = {
  text<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "text") {
    return createOption(schema, help, placeholder, (text) => text);
  },

  number<Schema extends z.ZodType>(schema: Schema, help: string) {
    return createOption(schema, help, "number", (text) =>
      /^-?\d+(\.\d+)?$/.test(text) && isExactNumber(text) ? Number(text) : text,
    );
  },

  /** Defines an option without a value: true if given, otherwise false. */
  flag(help: string) {
    return createOption(z.boolean().default(false), help, undefined, () => true);
  },

  /** Defines an option with an optional value, `true` or `false`; true if the value is omitted. */
  boolean<Schema extends z.ZodType>(schema: Schema, help: string) {
    return createOption(schema, help, "[true|false]", (text) => ({ true: true, false: false })[text] ?? text);
  },

  /** Defines an option with a list of values, separated by commas on the command line. */
  list<Schema extends z.ZodType>(schema: Schema, help: string, placeholder = "list") {
    return createOption(schema, help, placeholder, (text) => text.split(",").map((item) => item.trim()));
  },

  json<Schema extends z.ZodType>(schema: Schema, help: string) {
    const jsonSchema = z
      .unknown()
      .optional()
      .refine(
        (value) => typeof value !== "string",
        "must be JSON, with numbers that can be stored exactly, and each name once in an object",
      )
      .pipe(schema);
    return createOption(jsonSchema, help, "json", (text) => {
      try {
        const value: unknown = JSON.parse(text);
        return findJsonLoss(text) ? text : value;
      } catch {
        return text;
      }
    });
  },

  id(help: string): Option<typeof uuid> {
    return option.text(uuid, help, "uuid");
  },

  /** Defines a positional argument: a value without an option name. */
  argument<Schema extends z.ZodType>(schema: Schema, help: string): Option<Schema> {
    return { ...option.text(schema, help), isPositional: true };
  },

  /** Defines an option that takes one or more values, separated by spaces on the command line. */
  values<Schema extends z.ZodType>(schema: Schema, help: string, placeholder: string) {
    return option.text(schema, help, `${placeholder}...`);
  },
};

/** Returns true if an object may omit a member that has this schema. */
export function isOptional(schema: z.ZodType): boolean {
  return schema instanceof z.ZodExactOptional || schema.safeParse(undefined).success;
}

export const jsonOption = option.flag("print the result as one line of JSON");

/**
 * Validates the values of options.
 *
 * @param givenValues values by option name, in the JSON type that the schema expects
 * @throws {InputError} that names the invalid options
 */
export function readOptions<O extends Options>(options: O, givenValues: Record<string, unknown>): OptionValues<O> {
  const shape = Object.fromEntries(Object.entries(options).map(([name, { schema }]) => [name, schema]));
  const parseResult = z.strictObject(shape).safeParse(givenValues);
  if (parseResult.success) return parseResult.data as OptionValues<O>;
  throw new InputError(formatProblems(toOptionProblems(parseResult.error, givenValues), toOptionName));
}

/** Converts zod issues to option problems. The message for an omitted option is `is missing`. */
export function toOptionProblems(error: z.ZodError, givenValues: Record<string, unknown>): OptionProblem[] {
  return listIssues(error).map(({ path, message }) => {
    const isMissing = path.length === 1 && givenValues[String(path[0])] === undefined;
    return { path, message: isMissing ? "is missing" : message };
  });
}

/**
 * Formats problems as one line.
 *
 * @param getOptionName returns the name of an option as the operator types it
 */
export function formatProblems(problems: OptionProblem[], getOptionName: (option: string) => string): string {
  return problems.map(({ path, message }) => `${getOptionName(path.join("."))} ${message}`).join("; ");
}

/** Converts an option name to its form on the command line: `fullName` becomes `--full-name`. */
export function toOptionName(option: string): string {
  return `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
}
