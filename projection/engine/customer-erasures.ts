import type { PersonalDataCategory } from "../../shared/domain/personal-data/person.ts";
import type { CustomerErasure } from "./batch-segments.ts";
import type { ChangesByModel, RowChange, RowChanges } from "./fold-events.ts";
import { type AnyReadModel, eraseColumns, type Row } from "./read-model.ts";
import { loadRows, type Tables, toArrayLiteral, upsertRows } from "./rows.ts";

const MAX_ROWS = 1_000;

type ErasuresByCustomer = Map<string, CustomerErasure[]>;

/**
 * Writes neutral values to all rows of customers whose data was erased. Queries the tables for these rows, so all
 * earlier events must already be written.
 */
export async function eraseCustomerRows(tables: Tables, customerErasures: readonly CustomerErasure[]): Promise<void> {
  const { client, schema, models } = tables;
  const erasuresByCustomer: ErasuresByCustomer = new Map();
  for (const erasure of customerErasures) {
    const { customerId } = erasure.data;
    erasuresByCustomer.set(customerId, [...(erasuresByCustomer.get(customerId) ?? []), erasure]);
  }
  for (const model of models) {
    const rowsSql = model.customerRowsSql?.(schema);
    if (rowsSql === undefined) continue;
    const { rows: owners } = await client.query<Row & { customer_id: string }>({
      name: `rows of customers ${schema}.${model.table}`,
      text: rowsSql,
      values: [[...erasuresByCustomer.keys()]],
    });
    for (let start = 0; start < owners.length; start += MAX_ROWS) {
      await eraseRows(tables, model, owners.slice(start, start + MAX_ROWS), erasuresByCustomer);
    }
  }
}

async function eraseRows(
  tables: Tables,
  model: AnyReadModel,
  owners: readonly (Row & { customer_id: string })[],
  erasuresByCustomer: ErasuresByCustomer,
): Promise<void> {
  const toKey = (row: Row) => model.primaryKey.map((column) => String(row[column]));
  const erasuresByKey = new Map<string, CustomerErasure[]>();
  for (const owner of owners) {
    const id = toKey(owner).join("\n");
    // A queue ticket can name an animal and an appointment of two customers.
    erasuresByKey.set(id, [...(erasuresByKey.get(id) ?? []), ...(erasuresByCustomer.get(owner.customer_id) ?? [])]);
  }
  const rows = await loadRows(tables, model, owners.map(toKey));
  const erasedRows = new Map<string, Row>();
  for (const row of rows) {
    const id = toKey(row).join("\n");
    const erasedRow = (erasuresByKey.get(id) ?? []).reduce<Row>(
      (current, erasure) => eraseRow(model, current, erasure),
      row,
    );
    if (erasedRow !== row) erasedRows.set(id, erasedRow);
  }
  await upsertRows(tables, model, [...erasedRows.values()]);
}

/** Returns the same row if nothing changes. */
function eraseRow(model: AnyReadModel, row: Row, { id, position, metadata, data }: CustomerErasure): Row {
  const { personalColumns = {}, recordErasure } = model;
  const erasedRow = eraseColumns(row, data.categories, personalColumns);
  if (!recordErasure || !data.categories.some((category) => personalColumns[category])) return erasedRow;
  return { ...erasedRow, ...recordErasure(erasedRow, { id, position, occurredAt: metadata.occurredAt }) };
}

interface NewData {
  model: AnyReadModel;
  change: RowChange;
  category: PersonalDataCategory;
  customerId: string;
  /** Null if the event was in plain text. */
  dataKeyId: string | null;
}

/**
 * Writes neutral values over personal data that was recorded after its erasure, usually by a command that ran at the
 * same time. The data key is destroyed, so a rebuild gives neutral values, too. All earlier erasures must already be
 * written.
 *
 * Runs no query if no change adds personal data, and only one query if none of the customers was erased.
 */
export async function eraseLateData(tables: Tables, changesByModel: ChangesByModel): Promise<void> {
  const { client, schema } = tables;
  const newData = [...changesByModel].flatMap(([model, changes]) => findNewData(model, changes));
  if (newData.length === 0) return;
  const { rows: erasures } = await client.query<{ customerId: string; finalCategories: PersonalDataCategory[] }>({
    name: `erasures of customers ${schema}`,
    text: `SELECT person_id AS "customerId", final_categories AS "finalCategories"
             FROM ${schema}.erasure WHERE person_type = 'customer' AND person_id = ANY ($1::uuid[])`,
    values: [toArrayLiteral([...new Set(newData.map(({ customerId }) => customerId))])],
  });
  if (erasures.length === 0) return;
  const finalCategories = new Map(erasures.map((erasure) => [erasure.customerId, erasure.finalCategories]));
  const dataOfErased = newData.filter(({ customerId }) => finalCategories.has(customerId));
  const erasedKeyIds = await findErasedKeyIds(tables, dataOfErased);
  for (const { model, change, category, customerId, dataKeyId } of dataOfErased) {
    const isErased = finalCategories.get(customerId)?.includes(category) || (dataKeyId && erasedKeyIds.has(dataKeyId));
    if (isErased && change.rowAfter)
      change.rowAfter = eraseColumns(change.rowAfter, [category], model.personalColumns ?? {});
  }
}

function findNewData(model: AnyReadModel, changes: RowChanges): NewData[] {
  return [...changes.values()].flatMap((change) => {
    const { rowAfter, dataKeyIds } = change;
    const customerId = rowAfter?.customer_id;
    if (!rowAfter || !dataKeyIds || typeof customerId !== "string") return [];
    return [...dataKeyIds].map(([category, dataKeyId]) => ({ model, change, category, customerId, dataKeyId }));
  });
}

/** Returns the ids of destroyed data keys. A destroyed key is older than the erasure of its category. */
async function findErasedKeyIds({ client, schema }: Tables, newData: readonly NewData[]): Promise<ReadonlySet<string>> {
  const { rows } = await client.query<{ id: string }>({
    name: `erased keys ${schema}`,
    text: `SELECT k.id FROM data_keys.data_key k JOIN ${schema}.erasure e USING (person_type, person_id)
            WHERE k.id = ANY ($1::uuid[]) AND k.created_at <
              CASE k.category WHEN 'animal' THEN e.animal_erased_at WHEN 'notes' THEN e.notes_erased_at END`,
    values: [newData.flatMap(({ dataKeyId }) => dataKeyId ?? [])],
  });
  return new Set(rows.map(({ id }) => id));
}
