import { expect } from "chai";
import type { z } from "zod";
import {
  boundedText,
  calendarDate,
  email,
  freeForm,
  instant,
  label,
  notes,
} from "../../../../shared/domain/events/fields.ts";

/** The first half of a surrogate pair. */
const LONE_SURROGATE = "\ud83d";

/** Returns the parsed value; undefined if the schema refuses it. */
const parse = (schema: z.ZodType, value: unknown) => schema.safeParse(value).data;

describe("the fields of events", () => {
  for (const [text, expectedInstant] of [
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
    ["2026-02-30T00:00:00.000Z", undefined],
    ["2026-04-30T00:00:00.000Z", "2026-04-30T00:00:00.000Z"],
    ["2026-06-31T00:00:00.000Z", undefined],
    ["2026-12-31T23:59:59.999Z", "2026-12-31T23:59:59.999Z"],
    ["2026-03-01T24:00:00.000Z", undefined],
    ["2026-13-01T00:00:00.000Z", undefined],
    ["2026-00-01T00:00:00.000Z", undefined],
    ["2026-01-00T00:00:00.000Z", undefined],
    ["2026-03-01T09:00:00.000Z\n", undefined],
    ["2026-03-01T09:00:00", undefined],
  ] as const)
    it(`the instant schema ${expectedInstant ? `converts ${text} to ${expectedInstant}` : `refuses ${JSON.stringify(text)}`}`, () => {
      expect(parse(instant, text)).to.equal(expectedInstant);
    });

  for (const [text, isValid] of [
    ["0001-01-01", true],
    ["2028-02-29", true],
    ["0000-12-31", false],
    ["2027-02-29", false],
    ["2026-3-1", false],
    ["02026-03-01", false],
  ] as const)
    it(`the calendar date schema ${isValid ? "accepts" : "refuses"} ${text}`, () => {
      expect(parse(calendarDate, text)).to.equal(isValid ? text : undefined);
    });

  for (const [name, schema] of [
    ["a word", boundedText(60)],
    ["a label", label],
    ["notes", notes],
  ] as const)
    it(`the schema of ${name} accepts any text except NUL and lone surrogates`, () => {
      for (const text of ["a", "Grüße 🐕", "a\u2028b", "'; DROP TABLE"]) expect(parse(schema, text)).to.equal(text);
      for (const text of ["a\0", LONE_SURROGATE, `a${LONE_SURROGATE}b`])
        expect(parse(schema, text)).to.equal(undefined);
    });

  for (const [text, isValid] of [
    ...["anna&max@example.com", "a/b@example.com", "x=y@example.com", "o'hara+x@sub.example.co"].map((t) => [t, true]),
    ...["praxis@xn--e1afmkfd.xn--p1ai", "a.b.c@1.example", "_%{}|~^`*?$#!@a-b.io"].map((t) => [t, true]),
    ...["a@b", "a b@example.com", ".a@example.com", "a..b@example.com", "a.@example.com", "a@-b.com"].map((t) => [
      t,
      false,
    ]),
    ...["a@b-.com", "a@b..com", "a@10.0.0.1", "ä@example.com", "a@example.com\n", `${"a".repeat(250)}@b.co`].map(
      (t) => [t, false],
    ),
  ] as [string, boolean][])
    it(`the e-mail schema ${isValid ? "accepts" : "refuses"} ${JSON.stringify(text)}`, () => {
      expect(parse(email, text)).to.equal(isValid ? text : undefined);
    });

  it("a label has the Unicode normal form C", () => {
    expect(parse(label, " Zoe\u0308 ")).to.equal("Zo\u00eb");
  });

  it("the maximum length of a label is counted in the Unicode normal form C, without outer spaces", () => {
    // No letter is longer in another form than this one, which has four code points then.
    const letter = "\u1f82";
    expect(parse(label, ` ${letter.normalize("NFD").repeat(200)} `.padEnd(5_000))).to.equal(letter.repeat(200));
    expect(parse(label, letter.normalize("NFD").repeat(201))).to.equal(undefined);
    expect(parse(label, letter.repeat(201))).to.equal(undefined);
  });

  it("a bounded text must not be empty or exceed the maximum length", () => {
    expect([parse(boundedText(3), ""), parse(boundedText(3), "abcd"), parse(boundedText(3), "abc")]).to.eql([
      undefined,
      undefined,
      "abc",
    ]);
  });

  it("the maximum length of notes is counted in code points", () => {
    expect(parse(notes, "🐕".repeat(2000))).to.have.length(4000);
    expect(parse(notes, "🐕".repeat(2001))).to.equal(undefined);
  });

  it("a free-form value must be an object, without NUL characters or lone surrogates at any depth", () => {
    const nest = (leaf: unknown) => ({ a: [1, null, { b: leaf }] });
    expect(parse(freeForm, nest("🐕"))).to.eql(nest("🐕"));
    for (const value of [
      nest("\0"),
      nest({ "k\0": 1 }),
      nest({ [LONE_SURROGATE]: 1 }),
      nest(LONE_SURROGATE),
      [],
      "x",
      null,
      1,
    ])
      expect(parse(freeForm, value)).to.equal(undefined);
  });
});
