import type { CatalogEvent, CatalogEventType } from "../../shared/domain/events/catalog.ts";
import type { RecordedEvent } from "../../shared/eventstore/log.ts";

/** Types of a read model's columns. */
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

/** A row's values: timestamps as RFC 3339 texts, dates as YYYY-MM-DD, jsonb as the value itself. */
export type Row = Record<string, unknown>;

/** The recorded events of the given types. */
export type RecordedOf<Type extends CatalogEventType> = RecordedEvent<Extract<CatalogEvent, { type: Type }>>;

/**
 * A read model: one table, and the pure projector that keeps it. Each event that it listens to touches one row,
 * found by the key; the row after the event follows from the row before it, and undefined means no row.
 */
export interface ReadModel<R extends Row = Row, Type extends CatalogEventType = CatalogEventType> {
  table: string;
  columns: { [Column in keyof R & string]: ColumnType };
  /** May be null in the table; every other column may not. */
  nullable: readonly (keyof R & string)[];
  primaryKey: readonly (keyof R & string)[];
  /** Column lists of the secondary indexes, in SQL. */
  indexes: readonly string[];
  /** The role clinic_query does not see this table: it holds secrets, even if encrypted ones. */
  hidden?: boolean;
  /** The SQL condition for the rows of a sandbox, whose clinic is $1: a reset wipes them. Absent where it wipes none. */
  inSandbox?: (schema: string) => string;
  /** The primary key's values of the row that an event touches, in the key's order. */
  key(event: RecordedOf<Type>): readonly string[];
  on: { [T in Type]: (row: R | undefined, event: RecordedOf<T>) => R | undefined };
}

/** Declares a read model with its types inferred. */
export function defineReadModel<R extends Row>() {
  return <Type extends CatalogEventType>(model: ReadModel<R, Type>): ReadModel<R, Type> => model;
}

/** A read model as the engine handles it, whatever its rows and events are. */
export interface AnyReadModel extends Omit<ReadModel, "key" | "on"> {
  key(event: RecordedEvent): readonly string[];
  on: Partial<Record<CatalogEventType, (row: Row | undefined, event: RecordedEvent) => Row | undefined>>;
}

/** Makes a change to an existing row; an event about a row that is not there changes nothing. */
export function change<R extends Row, E>(apply: (event: E, row: R) => Partial<NoInfer<R>>) {
  return (row: R | undefined, event: E): R | undefined =>
    row ? { ...row, ...apply(event, row) } : undefined;
}
