import { expect } from "chai";
import { computeFingerprint } from "../../../projection/engine/ddl.ts";
import { type AnyReadModel, toColumns } from "../../../projection/engine/read-model.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { customers } from "../../../projection/read-models/customers.ts";
import type { CatalogEventType } from "../../../shared/domain/events/catalog.ts";
import { findPersonalFields } from "../../../shared/domain/personal-data/personal-fields.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";

/** Read models whose rows can refer to a customer. */
const TABLES_OF_CUSTOMERS = ["animal", "appointment", "queue_ticket"];

describe("the personal columns of the read models", () => {
  it("every column that shows a personal field is declared with the field's neutral value", () => {
    const undeclaredColumns: string[] = [];
    for (const { table, columns, on, personalColumns } of readModels) {
      for (const type of Object.keys(on) as CatalogEventType[]) {
        const personalFields = findPersonalFields(type);
        if (!personalFields) continue;
        const neutralValues = personalFields.fields.map(({ name, neutralValue }) => [name, neutralValue]);
        for (const [column, neutralValue] of Object.entries(toColumns(Object.fromEntries(neutralValues)))) {
          if (!(column in columns)) continue;
          const declaredValue = personalColumns?.[personalFields.category]?.[column];
          if (declaredValue !== neutralValue) undeclaredColumns.push(`${type}: ${table}.${column}`);
        }
      }
    }
    expect(undeclaredColumns).to.deep.equal([]);
  });

  it("exactly the read models with rows of customers have a query for these rows", () => {
    const models = readModels.filter(({ customerRowsSql }) => customerRowsSql);
    expect(models.map(({ table }) => table)).to.have.members(TABLES_OF_CUSTOMERS);
    for (const { columns } of models) expect(columns).to.have.property("customer_id");
    const personalTables = readModels.filter(({ personalColumns }) => personalColumns).map(({ table }) => table);
    expect(personalTables).to.have.members([...TABLES_OF_CUSTOMERS, "customer", "staff"]);
  });
});

/** Current schema name and fingerprint. If the tables change, both must change. */
const SCHEMA_AND_FINGERPRINT = {
  schema: "read_model_1",
  fingerprint: "2d0b2880da856d5fe842d1876d9b87e8d4c3f48fbd3f3538230f43f40d4bba9c",
};

describe("the schema of the read models", () => {
  it("each change of the tables has a schema with a new name", () => {
    expect(
      { schema: READ_MODEL_SCHEMA, fingerprint: computeFingerprint(readModels) },
      "The tables have changed. If a release has the former tables, change READ_MODEL_SCHEMA. Then update this test.",
    ).to.deep.equal(SCHEMA_AND_FINGERPRINT);
  });

  it("a release that renders other JSON has another fingerprint of its read models", () => {
    const changedModels: AnyReadModel[] = readModels.map((model) =>
      model.table === customers.table
        ? { ...model, renderedColumns: { ...model.renderedColumns, appointment_json: () => ({ id: "another form" }) } }
        : model,
    );
    expect(computeFingerprint(changedModels)).to.not.equal(computeFingerprint(readModels));
    expect(computeFingerprint([...readModels])).to.equal(computeFingerprint(readModels));
  });
});
