import { expect } from "chai";
import { z } from "zod";
import { integer } from "../../../../shared/domain/events/fields.ts";
import { describeIssue } from "../../../../shared/domain/validation/describe-issue.ts";

describe("the description of a validation issue", () => {
  for (const [schema, value, description] of [
    [z.string(), undefined, "is missing"],
    [z.string(), 5, "must be of type string"],
    [z.int(), 1.5, "must be of type integer"],
    [z.enum(["a", "b"]), "c", "must be one of a, b"],
    [z.literal("a"), "b", "must be a"],
    [z.string().min(1), "", "must have at least 1 character"],
    [z.string().max(3), "abcd", "must have at most 3 characters"],
    [z.array(z.string()).min(2), [], "must have at least 2 items"],
    [z.array(z.string()).max(1), ["a", "b"], "must have at most 1 item"],
    [z.record(z.string(), z.string()), [], "must be of type object"],
    [z.int().min(5), 3, "must be at least 5"],
    [integer(1, 9), undefined, "is missing"],
    ...["3", null, 1.5, 0, 10, 1e20].map((value) => [integer(1, 9), value, "must be an integer from 1 to 9"] as const),
    [z.number().positive(), 0, "must be more than 0"],
    [z.guid(), "x", "must be a UUID"],
    [z.url(), "x", "must be a URL"],
    [z.string().regex(/^a$/), "b", "has the wrong form"],
    [z.string().regex(/^a$/, "must be an a"), "b", "must be an a"],
    [z.record(z.string().regex(/^a$/, "must be an a"), z.string()), { b: "" }, "must be an a"],
    [z.string().refine(() => false, "must not be"), "b", "must not be"],
  ] as const)
    it(`the issue of the invalid value ${JSON.stringify(value)} is described as "${description}"`, () => {
      const { error } = schema.safeParse(value);
      expect(error?.issues.map(describeIssue)).to.deep.equal([description]);
    });
});
