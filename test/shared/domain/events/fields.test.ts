import { expect } from "chai";
import type { z } from "zod";
import {
  calendarDate,
  freeForm,
  instant,
  label,
  notes,
  word,
} from "../../../../shared/domain/events/fields.ts";

const HALF = "\ud83d"; // the first half of a surrogate pair

/** What becomes of a value: undefined where it is refused. */
const taken = (schema: z.ZodType, value: unknown) => schema.safeParse(value).data;

describe("the fields of events", () => {
  for (const [text, kept] of [
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"],
    ["9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999Z"],
    ["2026-03-01t09:00:00.1239+01:00", "2026-03-01T08:00:00.123Z"],
    ["0000-12-31T23:59:59Z", undefined],
    ["0000-12-31T23:59:59-00:01", "0001-01-01T00:00:59.000Z"],
    ["0001-01-01T00:00:00+00:01", undefined],
    ["9999-12-31T23:59:59-00:01", undefined],
    ["2026-02-30T00:00:00Z", undefined],
    ["2027-02-29T00:00:00.000Z", undefined],
    ["2028-02-29T00:00:00.000Z", "2028-02-29T00:00:00.000Z"],
    ["2026-04-31T00:00:00.000Z", undefined],
    ["2026-12-31T23:59:59.999Z", "2026-12-31T23:59:59.999Z"],
    ["2026-03-01T24:00:00.000Z", undefined],
    ["2026-13-01T00:00:00.000Z", undefined],
    ["2026-00-01T00:00:00.000Z", undefined],
    ["2026-01-00T00:00:00.000Z", undefined],
    ["2026-03-01T09:00:00.000Z\n", undefined],
    ["2026-03-01T09:00:00", undefined],
  ] as const) {
    it(`an instant ${text} is ${kept ?? "refused"}`, () => {
      expect(taken(instant, text)).to.equal(kept);
    });
  }

  for (const [text, good] of [
    ["0001-01-01", true],
    ["2028-02-29", true],
    ["0000-12-31", false],
    ["2027-02-29", false],
    ["2026-3-1", false],
    ["02026-03-01", false],
  ] as const) {
    it(`a date ${text} is ${good ? "taken" : "refused"}`, () => {
      expect(taken(calendarDate, text)).to.equal(good ? text : undefined);
    });
  }

  for (const [name, schema] of [
    ["a word", word(60)],
    ["a label", label],
    ["notes", notes],
  ] as const) {
    it(`${name} may hold any text but NUL and half characters`, () => {
      for (const text of ["a", "Grüße 🐕", "a\u2028b", "'; DROP TABLE"])
        expect(taken(schema, text)).to.equal(text);
      for (const text of ["a\0", HALF, `a${HALF}b`]) expect(taken(schema, text)).to.equal(undefined);
    });
  }

  it("a word is not empty and no longer than said", () => {
    expect([taken(word(3), ""), taken(word(3), "abcd"), taken(word(3), "abc")]).to.eql([
      undefined,
      undefined,
      "abc",
    ]);
  });

  it("notes count code points", () => {
    expect(taken(notes, "🐕".repeat(2000))).to.have.length(4000);
    expect(taken(notes, "🐕".repeat(2001))).to.equal(undefined);
  });

  it("free form is an object whose keys and texts can be stored, however deep", () => {
    const deep = (leaf: unknown) => ({ a: [1, null, { b: leaf }] });
    expect(taken(freeForm, deep("🐕"))).to.eql(deep("🐕"));
    for (const value of [deep("\0"), deep({ "k\0": 1 }), deep({ [HALF]: 1 }), deep(HALF), [], "x", null, 1])
      expect(taken(freeForm, value)).to.equal(undefined);
  });
});
