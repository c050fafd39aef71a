import type { ClientBase } from "pg";
import type { PersonalDataCategory } from "../../shared/domain/personal-data/person.ts";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";
import { ProjectionError } from "../roles/failure.ts";
import type { AnyReadModel, Row } from "./read-model.ts";
import { deleteRows, loadRows, upsertRows } from "./rows.ts";

/** Row of a read model before and after the events of a batch. */
export interface RowChange {
  key: readonly string[];
  rowBefore: Row | undefined;
  rowAfter: Row | undefined;
  /**
   * Categories of which the events wrote personal data to the row of a customer, with the data key of the last such
   * event; null if that event was in plain text.
   */
  dataKeyIds: Map<PersonalDataCategory, string | null> | undefined;
}

/** Changed rows of a read model, by primary key. */
export type RowChanges = Map<string, RowChange>;

/**
 * Loads the rows that events change, and folds the events in memory.
 *
 * @param referencedChanges changes of the read model that `model` references
 * @throws {ProjectionError} with stream, revision and position of the event, if a projector throws
 */
export async function foldEvents(
  client: ClientBase,
  schema: string,
  model: AnyReadModel,
  events: readonly RecordedEvent[],
  referencedChanges: RowChanges | undefined,
): Promise<RowChanges> {
  const changes: RowChanges = new Map();
  const changesByEvent = events.map((event) => {
    const key = callProjector(model, event, () => model.key(event));
    const id = toRowId(key);
    const change = changes.get(id) ?? { key, rowBefore: undefined, rowAfter: undefined, dataKeyIds: undefined };
    changes.set(id, change);
    return change;
  });
  const keys = [...changes.values()].map(({ key }) => key);
  for (const row of await loadRows(client, schema, model, keys)) {
    const change = changes.get(toRowId(model.primaryKey.map((column) => row[column])));
    if (change) change.rowBefore = change.rowAfter = row;
  }
  for (const [index, event] of events.entries()) {
    const change = changesByEvent[index];
    if (!change) continue;
    const formerRow = change.rowAfter;
    const referencedRow = findReferencedRow(model, event, referencedChanges);
    change.rowAfter = callProjector(model, event, () => model.on[event.type]?.(formerRow, event, referencedRow));
    if (model.customerRowsSql) recordDataKeys(model, change, formerRow, event);
  }
  return changes;
}

/** Returns the row of the referenced read model that the event changes, if that read model handles the event. */
function findReferencedRow(
  { references: model }: AnyReadModel,
  event: RecordedEvent,
  changes: RowChanges | undefined,
): Row | undefined {
  return model?.on[event.type] && changes?.get(toRowId(model.key(event)))?.rowAfter;
}

/** Returns the primary key as one text. */
function toRowId(key: readonly unknown[]): string {
  return key.join("\n");
}

/** Writes the changed rows of a read model. */
export async function writeChanges(
  client: ClientBase,
  schema: string,
  model: AnyReadModel,
  changes: RowChanges,
): Promise<void> {
  const changedRows: Row[] = [];
  const deletedKeys: (readonly string[])[] = [];
  for (const { key, rowBefore, rowAfter } of changes.values()) {
    if (rowAfter && rowAfter !== rowBefore) changedRows.push(rowAfter);
    if (rowBefore && !rowAfter) deletedKeys.push(key);
  }
  await upsertRows(client, schema, model, changedRows);
  await deleteRows(client, schema, model, deletedKeys);
}

/** Records the data key of an event for each category of personal columns that the event has changed. */
function recordDataKeys(
  { personalColumns = {} }: AnyReadModel,
  change: RowChange,
  formerRow: Row | undefined,
  event: RecordedEvent,
): void {
  const { rowAfter } = change;
  if (!rowAfter) return;
  for (const [category, columns] of Object.entries(personalColumns)) {
    if (!Object.keys(columns).some((name) => rowAfter[name] !== formerRow?.[name])) continue;
    change.dataKeyIds ??= new Map();
    change.dataKeyIds.set(category as PersonalDataCategory, event.dataKeyId ?? null);
  }
}

/** @throws {ProjectionError} with the position of the event, if the projector throws */
function callProjector<T>(model: AnyReadModel, event: RecordedEvent, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    const reason = `read model ${model.table} cannot process ${event.type}: ${(cause as Error).message}`;
    throw new ProjectionError(reason, event, cause);
  }
}
