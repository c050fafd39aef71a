import type { ClientBase } from "pg";
import type { PersonalDataCategory } from "../../shared/domain/personal-data/person.ts";
import type { CustomerErasure } from "./batch-segments.ts";
import { type AnyReadModel, eraseColumns, type Row } from "./read-model.ts";
import { loadRows, upsertRows } from "./rows.ts";

/** Maximum number of rows in memory. */
const MAX_ROWS = 1_000;

type CategoriesByCustomer = Map<string, PersonalDataCategory[]>;

/**
 * Writes neutral values to all rows of customers whose data was erased. The rows are found with the tables' current
 * rows, so all earlier events must already be written.
 */
export async function eraseCustomerRows(
  client: ClientBase,
  schema: string,
  models: readonly AnyReadModel[],
  customerErasures: readonly CustomerErasure[],
): Promise<void> {
  const categoriesByCustomer: CategoriesByCustomer = new Map();
  for (const { data } of customerErasures) {
    const earlierCategories = categoriesByCustomer.get(data.customerId) ?? [];
    categoriesByCustomer.set(data.customerId, [...earlierCategories, ...data.categories]);
  }
  for (const model of models) {
    const rowsSql = model.customerRowsSql?.(schema);
    if (rowsSql === undefined) continue;
    const { rows: owners } = await client.query<Row & { customer_id: string }>({
      name: `rows of customers ${schema}.${model.table}`,
      text: rowsSql,
      values: [[...categoriesByCustomer.keys()]],
    });
    for (let start = 0; start < owners.length; start += MAX_ROWS) {
      await eraseRows(client, schema, model, owners.slice(start, start + MAX_ROWS), categoriesByCustomer);
    }
  }
}

/** @param owners primary keys of rows, each with its customer */
async function eraseRows(
  client: ClientBase,
  schema: string,
  model: AnyReadModel,
  owners: readonly (Row & { customer_id: string })[],
  categoriesByCustomer: CategoriesByCustomer,
): Promise<void> {
  const toKey = (row: Row) => model.primaryKey.map((column) => String(row[column]));
  const categoriesByKey = new Map<string, PersonalDataCategory[]>();
  for (const owner of owners) {
    const id = toKey(owner).join("\n");
    // A queue ticket can name an animal and an appointment of two customers.
    categoriesByKey.set(id, [
      ...(categoriesByKey.get(id) ?? []),
      ...(categoriesByCustomer.get(owner.customer_id) ?? []),
    ]);
  }
  const rows = await loadRows(client, schema, model, owners.map(toKey));
  const erasedRows = new Map<string, Row>();
  for (const row of rows) {
    const id = toKey(row).join("\n");
    const erasedRow = eraseColumns(row, categoriesByKey.get(id) ?? [], model.personalColumns ?? {});
    if (erasedRow !== row) erasedRows.set(id, erasedRow);
  }
  await upsertRows(client, schema, model, [...erasedRows.values()]);
}
