import { expect } from "chai";
import {
  createLimitParameter,
  createLiteralTrueParameter,
  offsetParameter,
  readParameters,
  statusParameter,
} from "../../../query-api/http/parameters.ts";

describe("query parameters", () => {
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
  ] as const) {
    it(`the value ${JSON.stringify(text)} of the query parameter \`limit\` is parsed as ${expected}`, () => {
      expect(parseLimit(text as string)).to.equal(expected);
    });
  }

  it("the query parameter `offset` is clamped to the range from 0 to the largest Postgres integer", () => {
    expect(["-1", "0", "12", "9".repeat(400), "x"].map((text) => offsetParameter.parse(text))).to.deep.equal([
      0, 0, 12, 2_147_483_647, 0,
    ]);
  });

  it("the query parameter `status` is ignored if the value is unknown", () => {
    expect(["waiting", "Waiting", "lost", "", undefined].map(statusParameter.parse)).to.deep.equal([
      "waiting",
      null,
      null,
      null,
      null,
    ]);
  });

  it("a boolean query parameter is true only for the text `true`", () => {
    const { parse } = createLiteralTrueParameter("");
    expect(["true", "TRUE", "1", "", undefined].map(parse)).to.deep.equal([true, false, false, false, false]);
  });
});
