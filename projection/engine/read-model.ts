import type { CatalogEvent, CatalogEventType } from "../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";

/** Column types of read models. */
export type ColumnType =
  | "uuid"
  | "text"
  | "boolean"
  | "integer"
  | "bigint"
  | "numeric"
  | "date"
  | "time"
  | "timestamptz"
  | "jsonb";

/** Values of a row: timestamps as RFC 3339 texts, dates as YYYY-MM-DD, jsonb as parsed values. */
export type Row = Record<string, unknown>;

/** Recorded events of the given types. */
export type RecordedEventOf<Type extends CatalogEventType> = RecordedEvent<
  Extract<CatalogEvent, { type: Type }>
>;

/**
 * Read model: one table, and the pure projector that updates it. Each handled event changes the one row with the event's
 * key. A handler gets the row before the event and returns the row after it; undefined means no row.
 */
export interface ReadModel<R extends Row = Row, Type extends CatalogEventType = CatalogEventType> {
  table: string;
  columns: { [Column in keyof R & string]: ColumnType };
  /** Columns that may be null. All others are NOT NULL. */
  nullable: readonly (keyof R & string)[];
  primaryKey: readonly (keyof R & string)[];
  /** Column lists of the secondary indexes, in SQL. */
  indexes: readonly string[];
  /** True if the role clinic_query cannot read the table because it holds (encrypted) secrets. */
  hidden?: boolean;
  /** SQL condition for the rows of the sandbox clinic $1, which a reset deletes. Absent if a reset deletes no rows. */
  inSandbox?: (schema: string) => string;
  /** Returns the primary key of the row that an event changes. */
  key(event: RecordedEventOf<Type>): readonly string[];
  on: { [T in Type]: (row: R | undefined, event: RecordedEventOf<T>) => R | undefined };
}

/** Declares a read model with its types inferred. */
export function defineReadModel<R extends Row>() {
  return <Type extends CatalogEventType>(model: ReadModel<R, Type>): ReadModel<R, Type> => model;
}

/** Read model of any rows and events, as the engine handles it. */
export interface AnyReadModel extends Omit<ReadModel, "key" | "on"> {
  key(event: RecordedEvent): readonly string[];
  on: Partial<Record<CatalogEventType, (row: Row | undefined, event: RecordedEvent) => Row | undefined>>;
}

/** Makes a handler that changes an existing row. An event about a missing row changes nothing. */
export function change<R extends Row, E>(apply: (event: E, row: R) => Partial<NoInfer<R>>) {
  return (row: R | undefined, event: E): R | undefined =>
    row ? { ...row, ...apply(event, row) } : undefined;
}
