import { expect } from "chai";
import { v5 as uuidv5 } from "uuid";
import { createLineIdGenerator, deriveImportId } from "../../../../command/cli/import/import-line.ts";

const NAMESPACE = "d8a1f6f2-5b0d-4b6e-9c3a-2f7e1c9b4a60";

describe("the ids of an import", () => {
  const texts = ["", "a", '["customer register",["fullName","Zoë 🐾"]]', "x".repeat(5_000)];

  it("the ids of lines and imports are UUIDs of version 5, so that earlier imports are recognised", () => {
    for (const text of texts) {
      expect(createLineIdGenerator()(text)).to.equal(uuidv5(text, NAMESPACE));
      expect(deriveImportId(text)).to.equal(uuidv5(text, NAMESPACE));
    }
  });

  it("the second line with the same content has a different id", () => {
    const createId = createLineIdGenerator();
    expect([createId("a"), createId("a")]).to.deep.equal([uuidv5("a", NAMESPACE), uuidv5("a\n1", NAMESPACE)]);
  });
});
