import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import type { PersonalDataCategory } from "../../shared/domain/personal-data/person.ts";
import { awaitPipelined } from "../../shared/postgres/pool.ts";
import { ProjectionError } from "../roles/role.ts";
import type { AnyReadModel, Row } from "./read-model.ts";
import { deleteRows, loadRows, type Tables, upsertRows } from "./rows.ts";

export interface RowChange {
  key: readonly string[];
  rowBefore: Row | undefined;
  rowAfter: Row | undefined;
  /** Data key of the last event that wrote personal data, by category; null if the event was in plain text. */
  dataKeyIds: Map<PersonalDataCategory, string | null> | undefined;
}

/** Changed rows of a read model, by primary key. */
export type RowChanges = Map<string, RowChange>;

export type ChangesByModel = Map<AnyReadModel, RowChanges>;

/**
 * Loads the rows that events change, and folds the events in memory.
 *
 * @param eventsByModel events that each read model handles. A read model must come after the read models that it
 *   references
 * @throws {ProjectionError} with stream, revision and position of the event, if a projector throws
 */
export async function foldEvents(
  tables: Tables,
  eventsByModel: ReadonlyMap<AnyReadModel, readonly RecordedEvent[]>,
): Promise<ChangesByModel> {
  const loadPromises = [...eventsByModel].map(
    async ([model, events]) => [model, await loadChangedRows(tables, model, events)] as const,
  );
  const changesByModel = new Map(await awaitPipelined(loadPromises));
  const rowsByModel: RowsByModel = new Map(
    [...changesByModel.keys()].flatMap(({ references = [] }) => references.map((model) => [model.table, new Map()])),
  );
  for (const [model, changes] of changesByModel)
    foldEventsOfModel(model, eventsByModel.get(model) ?? [], changes, rowsByModel);
  return changesByModel;
}

async function loadChangedRows(
  tables: Tables,
  model: AnyReadModel,
  events: readonly RecordedEvent[],
): Promise<RowChanges> {
  const changes: RowChanges = new Map();
  for (const event of events) {
    const key = callProjector(model, event, () => model.key(event));
    if (!key) continue;
    const id = toRowId(key);
    if (!changes.has(id)) changes.set(id, { key, rowBefore: undefined, rowAfter: undefined, dataKeyIds: undefined });
  }
  const keys = [...changes.values()].map(({ key }) => key);
  for (const row of await loadRows(tables, model, keys)) {
    const change = changes.get(toRowId(model.primaryKey.map((column) => row[column])));
    if (change) change.rowBefore = change.rowAfter = row;
  }
  return changes;
}

/** Rows of the referenced read models before and after each event, by table. */
type RowsByModel = Map<string, Map<RecordedEvent, { before: Row | undefined; after: Row | undefined }>>;

function foldEventsOfModel(
  model: AnyReadModel,
  events: readonly RecordedEvent[],
  changes: RowChanges,
  rowsByModel: RowsByModel,
): void {
  const ownRows = rowsByModel.get(model.table);
  for (const event of events) {
    const key = model.key(event);
    const change = key && changes.get(toRowId(key));
    if (!change) continue;
    const formerRow = change.rowAfter;
    const findRows = ({ table }: { table: string }) => (rowsByModel.get(table)?.get(event) ?? {}) as never;
    requireSameClinic(model, event, formerRow);
    change.rowAfter = callProjector(model, event, () => model.on[event.type]?.(formerRow, event, findRows));
    requireSameClinic(model, event, change.rowAfter);
    ownRows?.set(event, { before: formerRow, after: change.rowAfter });
    if (model.customerRowsSql) recordDataKeys(model, change, formerRow, event);
  }
}

/**
 * Checks that a row belongs to the clinic of the event that reads or writes it. A faulty event may name the id of
 * another clinic's row, or be in another clinic's stream.
 *
 * @throws {ProjectionError} if the row belongs to another clinic
 */
function requireSameClinic({ table }: AnyReadModel, event: RecordedEvent, row: Row | undefined): void {
  if (row?.clinic_id === undefined || row.clinic_id === event.metadata.clinicId) return;
  const reason = `read model ${table} cannot process ${event.type}: its row belongs to another clinic`;
  throw new ProjectionError(reason, event, undefined);
}

function toRowId(key: readonly unknown[]): string {
  return key.join("\n");
}

/** Writes all changed and deleted rows. Sends all statements at once, in the order of the read models. */
export async function writeChanges(tables: Tables, changesByModel: ChangesByModel): Promise<void> {
  const writePromises = [...changesByModel].flatMap(([model, changes]) => {
    const changedRows: Row[] = [];
    const deletedKeys: (readonly string[])[] = [];
    for (const { key, rowBefore, rowAfter } of changes.values()) {
      if (rowAfter && rowAfter !== rowBefore) changedRows.push(rowAfter);
      if (rowBefore && !rowAfter) deletedKeys.push(key);
    }
    return [upsertRows(tables, model, changedRows), deleteRows(tables, model, deletedKeys)];
  });
  await awaitPipelined(writePromises);
}

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

function callProjector<T>(model: AnyReadModel, event: RecordedEvent, run: () => T): T {
  try {
    return run();
  } catch (cause) {
    const reason = `read model ${model.table} cannot process ${event.type}: ${(cause as Error).message}`;
    throw new ProjectionError(reason, event, cause);
  }
}
