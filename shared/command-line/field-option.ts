import { z } from "zod";
import { formats } from "../domain/events/fields.ts";
import { type Option, option } from "./option.ts";

/** Properties of a field that its command-line option, help text and documentation show. */
interface FieldForm {
  /** Schema of the value, without its wrappers for null and a default. */
  core: z.ZodType;
  format: string | undefined;
  description: string | undefined;
  defaultValue: unknown;
  isNullable: boolean;
}

/** Collects the properties of a field from its schema and the schema's wrappers. */
function inspectField(schema: z.ZodType): FieldForm {
  const form: FieldForm = {
    core: schema,
    format: undefined,
    description: undefined,
    defaultValue: undefined,
    isNullable: false,
  };
  for (;;) {
    const { core } = form;
    form.description ??= core.description;
    form.format ??= formats.get(core)?.format;
    if (core instanceof z.ZodDefault) form.defaultValue ??= core.def.defaultValue;
    if (core instanceof z.ZodNullable) form.isNullable = true;
    if (core instanceof z.ZodPipe) form.core = core.in as z.ZodType;
    else if (isWrapper(core)) form.core = core.unwrap() as z.ZodType;
    else return form;
  }
}

function isWrapper(schema: z.ZodType) {
  return (
    schema instanceof z.ZodDefault ||
    schema instanceof z.ZodNullable ||
    schema instanceof z.ZodOptional ||
    schema instanceof z.ZodExactOptional
  );
}

const PLACEHOLDERS: Record<string, string> = { date: "YYYY-MM-DD", time: "HH:MM:SS", "date-time": "time" };

/** Fields with the start or end of a time range, for which a date is accepted. */
const RANGE_FIELDS = ["since", "until"];

/**
 * Creates the command-line option for a field of an input. Its type, help text and placeholder come from the schema of
 * the field.
 *
 * @param isGenerated if true, the command line generates an omitted id
 */
export function createFieldOption(field: string, schema: z.ZodType, isGenerated: boolean): Option {
  const { core, format, isNullable } = inspectField(schema);
  const help = describeField(field, schema);
  if (core instanceof z.ZodNumber) return option.number(schema, help);
  if (core instanceof z.ZodBoolean) return option.boolean(schema, help);
  if (core instanceof z.ZodArray) return option.list(schema, help, isListOfIds(core) ? "uuids" : "list");
  if (core instanceof z.ZodRecord) return option.json(schema, help);
  const formatPlaceholder = format === undefined ? "text" : (PLACEHOLDERS[format] ?? format);
  const placeholder = RANGE_FIELDS.includes(field) ? "date or time" : formatPlaceholder;
  const { parseText, ...textOption } = option.text(schema, help, placeholder);
  return { ...textOption, isGenerated, parseText: isNullable ? (text) => text || null : parseText };
}

/** Describes a field, its permitted values and its default in a phrase, such as `duration minutes; default: 30`. */
export function describeField(field: string, schema: z.ZodType): string {
  const { core, format, description, defaultValue } = inspectField(schema);
  const words = toWords(field);
  const items = core instanceof z.ZodArray ? inspectField(core.element as z.ZodType) : undefined;
  const isId = format === "uuid" || (core instanceof z.ZodArray && isListOfIds(core));
  const values = items?.core ?? core;
  const [text, ...defaultTexts] = (description ?? (isId ? `${items ? "ids" : "id"} of the ${words}` : words)).split(
    "; ",
  );
  return [
    text,
    items ? ", separated by commas" : "",
    values instanceof z.ZodEnum ? `: ${values.options.join(", ")}` : "",
    ...defaultTexts.map((defaultText) => `; ${defaultText}`),
    defaultValue === undefined || typeof defaultValue === "object" ? "" : `; default: ${defaultValue}`,
  ].join("");
}

function isListOfIds({ element }: z.ZodArray): boolean {
  return inspectField(element as z.ZodType).format === "uuid";
}

/** Returns the name of a field's option: `scheduledAt`, `animal` for `animalId`, or `branches` for `branchIds`. */
export function toOptionKey(field: string): string {
  return field
    .replace(/chIds$/, "ches")
    .replace(/Ids$/, "s")
    .replace(/Id$/, "");
}

/** Converts the name of a field to words: `client secret` for `clientSecret`. */
export function toWords(field: string): string {
  return toOptionKey(field).replaceAll(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`);
}
