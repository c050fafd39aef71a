import { expect } from "chai";
import { z } from "zod";
import { staffCommands } from "../../../../command/operations/commands.ts";
import { categories } from "../../../../shared/domain/events/catalog.ts";
import { parseStoredEvent } from "../../../../shared/domain/events/stored-event.ts";
import { describeIssue } from "../../../../shared/domain/validation/describe-issue.ts";
import * as requestBodies from "../../../../shared/partner-api/request-bodies.ts";
import { readConfig, type Settings, settings } from "../../../../shared/runtime/config.ts";

/** Invalid values. Each pattern in the project must refuse at least one of them. */
const INVALID_VALUES = ["", "\u0001", "no such ~ form", "-".repeat(5_000), "ÄÖÜ"];

/** Matches messages that contain a regular expression. */
const REGULAR_EXPRESSION_PATTERN = /must match|\/\^|\$\/|\\[dwsxpu]|\[[^\]\s]*-[^\]\s]*\]|\{\d+,?\d*\}|\(\?[:=!<]/;

type Schema = z.core.$ZodType;

/** Yields a schema and all schemas nested inside it, each with its path. */
function* listSchemas(schema: Schema, path: string): Generator<[string, Schema]> {
  yield [path, schema];
  const { def } = (schema as unknown as { _zod: { def: Record<string, unknown> } })._zod;
  for (const [name, member] of Object.entries(def)) {
    if (name === "checks" || name === "error") continue;
    const children = typeof member === "object" && member !== null ? member : {};
    const entries = "_zod" in children ? [[name, children]] : Object.entries(children);
    for (const [key, child] of entries)
      if (typeof child === "object" && child !== null && "_zod" in child)
        yield* listSchemas(child as Schema, `${path}.${key}`);
  }
}

const rootSchemas: [string, Schema][] = [
  ...categories.flatMap(({ name, events }) =>
    Object.entries(events).map(([type, schema]): [string, Schema] => [`${name}.${type}`, schema]),
  ),
  ...staffCommands.map(({ name, input }): [string, Schema] => [name, input]),
  ...Object.entries<unknown>(requestBodies).filter(
    (entry): entry is [string, z.ZodType] => entry[1] instanceof z.ZodType,
  ),
  ...Object.entries(settings),
];

interface Definition {
  pattern?: RegExp;
  checks?: { _zod: { def: Definition } }[];
}

/** Returns the patterns of a string schema's format and checks. */
function listPatterns(schema: Schema): RegExp[] {
  const { def } = (schema as unknown as { _zod: { def: Definition } })._zod;
  const definitions = [def, ...(def.checks ?? []).map((check) => check._zod.def)];
  return definitions.flatMap(({ pattern }) => (pattern instanceof RegExp ? [pattern] : []));
}

describe("validation messages", () => {
  const patternSchemas = rootSchemas
    .flatMap(([name, rootSchema]) => [...listSchemas(rootSchema, name)])
    .filter(([, schema]) => listPatterns(schema).length > 0);

  it("no validation message of events, commands, requests and settings contains a regular expression", () => {
    expect(patternSchemas.length).to.be.greaterThan(100);
    const sources = new Set<string>();
    for (const [name, schema] of patternSchemas) {
      const texts = INVALID_VALUES.flatMap((value) => {
        const { error } = (schema as z.ZodType).safeParse(value);
        return error?.issues.map((issue) => describeIssue(issue)) ?? [];
      });
      expect(texts, `${name} accepts every wrong value`).to.not.deep.equal([]);
      for (const pattern of listPatterns(schema)) {
        sources.add(pattern.source);
        for (const text of texts) expect(text, name).to.not.contain(pattern.source);
      }
      for (const text of texts) {
        expect(text, name).to.not.match(REGULAR_EXPRESSION_PATTERN);
        expect(text, `${name} does not say what is expected`).to.not.equal("has the wrong form");
      }
    }
    expect(sources.size).to.be.greaterThan(8);
  });

  it("no error message of a stored event, an option or a setting contains a regular expression", () => {
    const texts: string[] = [];
    for (const type of categories.flatMap(({ events }) => Object.keys(events))) {
      const data = new Proxy({}, { get: (_, name) => (typeof name === "string" ? "~" : undefined), has: () => true });
      try {
        const id = "00000000-0000-4000-8000-000000000001";
        const actor = { type: "system", id: "test" };
        const commonFields = { $correlationId: id, $causationId: id, actor, clinicId: null, environment: null };
        const metadata = { ...commonFields, schemaVersion: 1, occurredAt: "2026-01-01T00:00:00.000Z" };
        parseStoredEvent({ streamId: "test-1", type, data, metadata });
      } catch (error) {
        texts.push((error as Error).message);
      }
    }
    expect(texts.length).to.be.greaterThan(40);
    for (const { input } of staffCommands) {
      const { error } = input.safeParse(Object.fromEntries(Object.keys(input.shape).map((name) => [name, "~"])));
      texts.push(...(error?.issues.map(describeIssue) ?? []));
    }
    for (const name of Object.keys(settings) as (keyof Settings)[]) {
      try {
        readConfig([name], { [name]: "~" });
      } catch (error) {
        texts.push((error as Error).message);
      }
    }
    for (const text of texts) expect(text).to.not.match(REGULAR_EXPRESSION_PATTERN);
  });
});
