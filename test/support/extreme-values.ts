import { randomUUID } from "node:crypto";
import { z } from "zod";
import { deriveSandboxClinicId } from "../../shared/domain/events/ids.ts";
import { sandboxStreams } from "../../shared/domain/events/sandbox.ts";

/** Maximum length of generated texts if the schema has no limit. The event log limits the size of events. */
const MAX_TEXT_LENGTH = 50_000;
const MAX_LIST_LENGTH = 300;

/** Maximum nesting of generated objects if the schema has no limit. */
const MAX_NESTING = 20_000;

/**
 * Lists values that a schema accepts. Together, they cover the smallest and the largest value of each member, and texts
 * that a database may refuse.
 *
 * @throws {Error} if the schema accepts none of the generated values
 */
export function listExtremes(schema: z.ZodType): unknown[] {
  const accepts = (value: unknown) => schema.safeParse(value).success;
  const values = listCandidates(schema, accepts).filter(accepts);
  if (values.length === 0) throw new Error(`No value is known that a schema of type ${schema.type} accepts.`);
  return values;
}

/** Creates valid event data with random ids. Nullable and optional members get a value. */
export function createSampleData(schema: z.ZodObject): Record<string, unknown> {
  const { SandboxReset } = sandboxStreams.events;
  const { events: _, ...resetShape } = SandboxReset.shape;
  const entries = Object.entries(schema === SandboxReset ? resetShape : schema.shape).map(([name, member]) => {
    const values = listExtremes(member as z.ZodType).filter((value) => value !== null && value !== undefined);
    return [name, values.includes(SMALLEST_ID) ? randomUUID() : values[0]];
  });
  const data = Object.fromEntries(entries);
  return schema === SandboxReset ? { ...data, clinicId: deriveSandboxClinicId(data.applicationId), events: [] } : data;
}

const SMALLEST_ID = "00000000-0000-0000-0000-000000000000";

type Accepts = (value: unknown) => boolean;

/** @param accepts checks a value against the complete schema. `schema` can be the input side of a pipe in it */
function listCandidates(schema: z.ZodType, accepts: Accepts): unknown[] {
  if (schema instanceof z.ZodObject) return combine(schema.shape);
  if (schema instanceof z.ZodNullable) return [null, ...listExtremes(schema.unwrap() as z.ZodType)];
  if (schema instanceof z.ZodOptional) return [undefined, ...listExtremes(schema.unwrap() as z.ZodType)];
  if (schema instanceof z.ZodExactOptional) return [undefined, ...listExtremes(schema.unwrap() as z.ZodType)];
  if (schema instanceof z.ZodPipe) return listCandidates(schema.in as z.ZodType, accepts);
  if (schema instanceof z.ZodEnum) return schema.options;
  if (schema instanceof z.ZodBoolean) return [false, true];
  if (schema instanceof z.ZodNumber) return listNumbers(schema);
  if (schema instanceof z.ZodString || schema instanceof z.ZodStringFormat) return listTexts(accepts);
  if (schema instanceof z.ZodArray) return listArrays(schema.element as z.ZodType, accepts);
  if (schema instanceof z.ZodRecord) return listObjects(accepts);
  return [];
}

/**
 * Lists objects. In the first half, all members of an object have their n-th value. In the second half, neighboring
 * members have different values, such as the smallest and the largest.
 */
function combine(shape: Readonly<Record<string, z.ZodType>>): unknown[] {
  const valuesByName = Object.entries(shape).map(([name, schema]) => [name, listExtremes(schema)] as const);
  const count = Math.max(...valuesByName.map(([, values]) => values.length));
  return [0, 1].flatMap((shift) =>
    Array.from({ length: count }, (_, row) => {
      const members = valuesByName.map(
        ([name, values], column) => [name, values[(row + shift * column) % values.length]] as const,
      );
      return Object.fromEntries(members.filter(([, value]) => value !== undefined));
    }),
  );
}

function listNumbers({ minValue, maxValue }: z.ZodNumber): number[] {
  const { MAX_VALUE, MIN_VALUE, MAX_SAFE_INTEGER } = Number;
  const limits = [minValue ?? -MAX_VALUE, maxValue ?? MAX_VALUE];
  return [...new Set([...limits, -MAX_SAFE_INTEGER, MAX_SAFE_INTEGER, -1.5, 0, MIN_VALUE, 0.1])];
}

function listTexts(accepts: Accepts): string[] {
  return [
    ...[SMALLEST_ID, "ffffffff-ffff-ffff-ffff-ffffffffffff"],
    ...findTimeLimits(accepts, (text) => text),
    ...findTimeLimits(accepts, (text) => text.slice(0, 10)),
    ...["00:00:00", "23:59:59", "24:00:00"],
    ...["EUR", "a.b.c"],
    ...LETTERS.flatMap((createText) => findLongest(accepts, createText)),
    ...["text\0", "text\ud800", "https://a.example/\0", "https://a.example/\ud800"],
    ...findLongest(accepts, (length) => `https://a.example/${"x".repeat(length)}`),
    ...findLongest(accepts, (length) => `a@${"x.".repeat(length)}example`),
  ];
}

/**
 * Create texts of a given length: with digits or letters, with characters to escape, or with three bytes per character.
 */
const LETTERS: readonly ((length: number) => string)[] = [
  (length) => "1".repeat(length),
  (length) => "a".repeat(length),
  (length) => '\\"'.repeat(length / 2 + 1).slice(0, length),
  // Different letters, because Postgres compresses a repeated letter.
  (length) => Array.from({ length }, (_, index) => String.fromCodePoint(0x4e00 + ((index * 7_919) % 20_000))).join(""),
];

/** Returns the shortest and the longest accepted text. */
function findLongest(accepts: Accepts, createText: (length: number) => string): string[] {
  const lengths = [1, 2, 20, 30, 35, 40, 60, 64, 80, 200, 300, 2_000, MAX_TEXT_LENGTH];
  const acceptedTexts = lengths.map(createText).filter(accepts);
  const [shortestText] = acceptedTexts;
  return shortestText === undefined ? [] : [shortestText, acceptedTexts.at(-1) as string];
}

/** Finds the first and the last accepted date-time or date of the years 0000 to 9999 by bisection. */
function findTimeLimits(accepts: Accepts, format: (text: string) => string): string[] {
  const toText = (time: number) => format(new Date(time).toISOString());
  const knownTime = Date.parse("2026-03-01T08:00:00Z");
  if (!accepts(toText(knownTime))) return [];
  return [Date.parse("0000-01-01T00:00:00Z"), Date.parse("9999-12-31T23:59:59.999Z")].map((limit) => {
    let [acceptedTime, refusedTime] = [knownTime, limit];
    if (accepts(toText(limit))) return toText(limit);
    while (Math.abs(refusedTime - acceptedTime) > 1) {
      const middleTime = Math.trunc((acceptedTime + refusedTime) / 2);
      if (accepts(toText(middleTime))) acceptedTime = middleTime;
      else refusedTime = middleTime;
    }
    return toText(acceptedTime);
  });
}

function listArrays(element: z.ZodType, accepts: Accepts): unknown[][] {
  if (element instanceof z.ZodNever) return [[]];
  const elements = listExtremes(element);
  const repeat = (length: number) => Array.from({ length }, (_, index) => elements[index % elements.length]);
  const longestLists = [1, MAX_LIST_LENGTH].map(repeat).filter(accepts);
  return [[], ...elements.map((value) => [value]), ...longestLists];
}

/** Lists accepted JSON objects with arbitrary members. */
function listObjects(accepts: Accepts): object[] {
  const nest = (depth: number) => {
    let value: object = {};
    for (let level = 1; level < depth; level += 1) value = { a: value };
    return value;
  };
  const deepObjects = [1, 10, 100, 1_000, MAX_NESTING].map(nest).filter(accepts);
  const values = [Number.MAX_VALUE, Number.MIN_VALUE, -Number.MAX_SAFE_INTEGER, true, null, ["a", {}]];
  const texts = listTexts((value) => accepts({ [String(value)]: value }));
  return [...deepObjects.slice(-1), Object.fromEntries(values.entries()), ...texts.map((text) => ({ [text]: text }))];
}
