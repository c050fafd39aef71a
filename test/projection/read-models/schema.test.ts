import { expect } from "chai";
import { computeFingerprint } from "../../../projection/engine/ddl.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";

/** Schema of the read models, with the fingerprint of their tables. */
const SCHEMA_AND_FINGERPRINT = {
  schema: "read_model_1",
  fingerprint: "052bfaeedd3a07a6d1561343f5401e2c9f33c48f9c6a417686efcebaedb4874d",
};

describe("the schema of the read models", () => {
  it("each change of the tables has a schema with a new name", () => {
    expect(
      { schema: READ_MODEL_SCHEMA, fingerprint: computeFingerprint(readModels) },
      "The tables have changed. If a release has the former tables, change READ_MODEL_SCHEMA. Then update this test.",
    ).to.deep.equal(SCHEMA_AND_FINGERPRINT);
  });
});
