import { expect } from "chai";
import fc from "fast-check";
import {
  createLimitParameter,
  createLiteralTrueParameter,
  MAX_WINDOW_DAYS,
  offsetParameter,
  type QueryParameters,
  readParameters,
  statusParameter,
  toTimeWindow,
} from "../../../query-api/http/parameters.ts";

describe("query parameters", () => {
  const parseWith =
    <Parameter extends QueryParameters[string]>(parameter: Parameter) =>
    (value: string | undefined) =>
      readParameters({ parameter }, { parameter: value }).parameter;
  const parseLimit = (text: string | string[] | undefined) =>
    readParameters({ limit: createLimitParameter(250, 100) }, { limit: text }).limit;

  for (const [text, expected] of [
    [undefined, 100],
    ["1", 1],
    ["250", 250],
    ["0", 1],
    ["-5", 1],
    ["251", 250],
    ["99999999999999999999999999", 250],
    ["", 100],
    ["ten", 100],
    ["10.5", 100],
    ["1e2", 100],
    [" 7", 100],
    [["7", "7"], 100],
  ] as const)
    it(`the value ${JSON.stringify(text)} of the query parameter \`limit\` is parsed as ${expected}`, () => {
      expect(parseLimit(text as string)).to.equal(expected);
    });

  it("the query parameter `offset` is clamped to the range from 0 to the largest Postgres integer", () => {
    expect(["-1", "0", "12", "9".repeat(400), "x"].map(parseWith(offsetParameter))).to.deep.equal([
      0, 0, 12, 2_147_483_647, 0,
    ]);
  });

  it("the query parameter `status` is ignored if the value is unknown", () => {
    expect(["waiting", "Waiting", "lost", "", undefined].map(parseWith(statusParameter))).to.deep.equal([
      "waiting",
      null,
      null,
      null,
      null,
    ]);
  });

  it("a boolean query parameter is true only for the text `true`", () => {
    const parse = parseWith(createLiteralTrueParameter(""));
    expect(["true", "TRUE", "1", "", undefined].map(parse)).to.deep.equal([true, false, false, false, false]);
  });
});

const DAY_MS = 86_400_000;
const now = Date.parse("2026-11-21T10:15:30.123Z");
const toInstant = (epochMs: number) => new Date(epochMs).toISOString();
const toWindow = (from: string | undefined, to: string | undefined) => toTimeWindow({ from, to }, now);

describe("timeWindow", () => {
  it("a time window starts now and lasts seven days if `from` and `to` are missing", () => {
    expect(toWindow(undefined, undefined)).to.deep.equal({ from: toInstant(now), to: toInstant(now + 7 * DAY_MS) });
  });

  it("a time window of exactly 31 days is valid", () => {
    expect(toWindow("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z")).to.deep.equal({
      from: "2026-01-01T00:00:00.000Z",
      to: "2026-02-01T00:00:00.000Z",
    });
  });

  const sevenDayWindow = { from: "2026-01-01T00:00:00.000Z", to: "2026-01-08T00:00:00.000Z" };
  for (const [title, to] of [
    ["a millisecond more than 31 days after `from`", "2026-02-01T00:00:00.001Z"],
    ["equal to `from`", "2026-01-01T00:00:00Z"],
    ["before `from`", "2025-12-31T23:59:59.999Z"],
    ["missing", undefined],
    ["a date only", "2026-01-05"],
    ["without an offset", "2026-01-05T00:00:00"],
    ["a nonexistent day", "2026-01-32T00:00:00Z"],
    ["empty", ""],
    ["a number", "1767571200000"],
  ] as const)
    it(`a time window ends seven days after \`from\` if \`to\` is ${title}`, () => {
      expect(toWindow("2026-01-01T00:00:00Z", to)).to.deep.equal(sevenDayWindow);
    });

  it("a time window of one millisecond is valid", () => {
    expect(toWindow("2026-01-01T00:00:00Z", "2026-01-01T00:00:00.001Z").to).to.equal("2026-01-01T00:00:00.001Z");
  });

  it("if `from` is invalid, the time window starts now, and `to` is compared with the current time", () => {
    const to = toInstant(now + 3 * DAY_MS);
    expect(toWindow("2026-02-30T00:00:00Z", to)).to.deep.equal({ from: toInstant(now), to });
    expect(toWindow("yesterday", "2026-01-05T00:00:00Z").to).to.equal(toInstant(now + 7 * DAY_MS));
  });

  it("the parameters `from` and `to` of a time window can contain UTC offsets and lowercase letters", () => {
    expect(toWindow("2026-01-01t03:00:00+03:00", "2026-01-02T00:00:00z")).to.deep.equal({
      from: "2026-01-01T00:00:00.000Z",
      to: "2026-01-02T00:00:00.000Z",
    });
  });

  it("a time window can start on a leap day", () => {
    expect(toWindow("2028-02-29T00:00:00Z", undefined).to).to.equal("2028-03-07T00:00:00.000Z");
    expect(toWindow("2026-02-29T00:00:00Z", undefined).from).to.equal(toInstant(now));
  });

  it("a time window uses only years that both RFC 3339 and Postgres support", () => {
    expect(toWindow("0000-06-01T00:00:00Z", undefined).from).to.equal(toInstant(now));
    expect(toWindow("0001-01-01T00:00:00+01:00", undefined).from).to.equal(toInstant(now));
    const lastInstant = "9999-12-31T23:59:59.999Z";
    for (const from of ["9999-12-30T00:00:00.000Z", lastInstant])
      expect(toWindow(from, undefined)).to.deep.equal({ from, to: lastInstant });
    expect(toWindow("9999-12-20T00:00:00Z", "9999-12-31T23:59:59-23:59").to).to.equal("9999-12-27T00:00:00.000Z");
  });

  it("for any `from` and `to`, a time window is longer than zero and at most 31 days long", () => {
    const instantArbitrary = fc.date({ noInvalidDate: true }).map((date) => date.toISOString());
    const textArbitrary = fc.option(fc.oneof(instantArbitrary, fc.string()), { nil: undefined });
    fc.assert(
      fc.property(textArbitrary, textArbitrary, (from, to) => {
        const window = toWindow(from, to);
        const lengthMs = Date.parse(window.to) - Date.parse(window.from);
        return lengthMs > 0 && lengthMs <= MAX_WINDOW_DAYS * DAY_MS && window.from.length + window.to.length === 48;
      }),
    );
  });

  it("a time window accepts any `from` and `to` that are at most 31 days apart, with any UTC offset", () => {
    const startArbitrary = fc.integer({ min: Date.UTC(1970, 0, 1), max: Date.UTC(2100, 0, 1) });
    const spanArbitrary = fc.integer({ min: 1, max: MAX_WINDOW_DAYS * DAY_MS });
    const offsetArbitrary = fc.integer({ min: -839, max: 839 });
    fc.assert(
      fc.property(startArbitrary, spanArbitrary, offsetArbitrary, (fromMs, spanMs, offsetMinutes) => {
        expect(
          toWindow(formatWithOffset(fromMs, offsetMinutes), formatWithOffset(fromMs + spanMs, -offsetMinutes)),
        ).to.deep.equal({ from: toInstant(fromMs), to: toInstant(fromMs + spanMs) });
      }),
    );
  });
});

/** Formats an instant with a UTC offset of the given number of minutes. */
function formatWithOffset(epochMs: number, minutes: number): string {
  const padNumber = (value: number) => String(value).padStart(2, "0");
  const offsetMinutes = Math.abs(minutes);
  const offset = `${minutes < 0 ? "-" : "+"}${padNumber(Math.floor(offsetMinutes / 60))}:${padNumber(offsetMinutes % 60)}`;
  return toInstant(epochMs + minutes * 60_000).replace("Z", offset);
}
