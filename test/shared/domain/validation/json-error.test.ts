import { expect } from "chai";
import fc from "fast-check";
import { findJsonError } from "../../../../shared/domain/validation/json-error.ts";

describe("the position of an error in JSON", () => {
  for (const [text, index] of [
    ["", 0],
    ["  ", 2],
    ['{"a": x}', 6],
    ['{"a": 1,}', 8],
    ["{'a': 1}", 1],
    ['{"a" 1}', 5],
    ['{"a": 1 "b": 2}', 8],
    ['{"a": 1', 7],
    ['{"a": "b', 6],
    ['{"a": "b\\x"}', 6],
    ['{"a": 01}', 7],
    ['{"a": [1, ]}', 10],
    ["[1}", 2],
    ["{} {}", 3],
    ["TRUE", 0],
    ["NaN", 0],
    ['{"a"}', 4],
    ["{1: 2}", 1],
    ["\uFEFF{}", 0],
  ] as const)
    it(`the error of the text ${JSON.stringify(text)} is at index ${index}`, () => {
      expect(findJsonError(text)).to.equal(index);
    });

  const parses = (text: string) => {
    try {
      JSON.parse(text);
      return true;
    } catch {
      return false;
    }
  };

  it("an error is found in exactly the texts that are not JSON, and the text before it is the start of a JSON text", () => {
    const similarText = fc
      .tuple(fc.json(), fc.nat(), fc.constantFrom("", ...'{}[],:"\\0-1.e tn\n\u0001'))
      .map(([text, position, character]) => {
        const index = position % (text.length + 1);
        return text.slice(0, index) + character + text.slice(index + 1);
      });
    fc.assert(
      fc.property(fc.oneof(fc.json(), similarText), (text) => {
        const index = findJsonError(text);
        expect(index === undefined).to.equal(parses(text));
        if (index !== undefined) expect(findJsonError(text.slice(0, index))).to.be.oneOf([index, undefined]);
      }),
      { numRuns: 2_000 },
    );
  });

  it("the error of a text of a megabyte is found without a stack overflow", () => {
    expect(findJsonError(`["${"\\n".repeat(500_000)}"`)).to.equal(1_000_003);
    expect(findJsonError("[".repeat(1_000_000))).to.equal(1_000_000);
  });
});
