import { expect } from "chai";
import { toColumns } from "../../../projection/engine/read-model.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import type { CatalogEventType } from "../../../shared/domain/events/catalog.ts";
import { findPersonalFields } from "../../../shared/domain/personal-data/personal-fields.ts";

/** Read models whose rows can belong to a customer, other than the customer's own row. */
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
