import type { ClientBase } from "pg";
import type { PersonalDataCategory } from "../../shared/domain/personal-data/person.ts";
import type { ChangesByModel, RowChange, RowChanges } from "./fold-events.ts";
import { type AnyReadModel, eraseColumns } from "./read-model.ts";
import { toArrayLiteral } from "./rows.ts";

/** New personal data in a changed row of a customer. */
interface NewData {
  model: AnyReadModel;
  change: RowChange;
  category: PersonalDataCategory;
  customerId: string;
  /** Data key of the event with the data; null if the event was in plain text. */
  dataKeyId: string | null;
}

/**
 * Replaces personal data that was recorded after its erasure by neutral values. A command that ran at the same time as
 * the erasure can have recorded such data. Its data key is destroyed, so a rebuild gives neutral values, too.
 *
 * Changes without new personal data need no query, and others one query, unless a customer was erased. All earlier
 * erasures must already be written.
 */
export async function eraseLateData(client: ClientBase, schema: string, changesByModel: ChangesByModel): Promise<void> {
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
  const erasedKeyIds = await findErasedKeyIds(client, schema, dataOfErased);
  for (const { model, change, category, customerId, dataKeyId } of dataOfErased) {
    const isFinal = finalCategories.get(customerId)?.includes(category);
    if (!change.rowAfter || !(isFinal || (dataKeyId && erasedKeyIds.has(dataKeyId)))) continue;
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

/** Finds the data keys that are older than the erasure of their data, and therefore destroyed. */
async function findErasedKeyIds(
  client: ClientBase,
  schema: string,
  newData: readonly NewData[],
): Promise<ReadonlySet<string>> {
  const { rows } = await client.query<{ id: string }>({
    name: `erased keys ${schema}`,
    text: `SELECT k.id FROM data_keys.data_key k JOIN ${schema}.erasure e USING (person_type, person_id)
            WHERE k.id = ANY ($1::uuid[]) AND k.created_at <
              CASE k.category WHEN 'animal' THEN e.animal_erased_at WHEN 'notes' THEN e.notes_erased_at END`,
    values: [newData.flatMap(({ dataKeyId }) => dataKeyId ?? [])],
  });
  return new Set(rows.map(({ id }) => id));
}
