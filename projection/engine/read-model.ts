import type { CatalogEvent, CatalogEventType } from "../../shared/domain/events/catalog.ts";
import type { Category } from "../../shared/domain/events/category.ts";
import type { RecordedEvent } from "../../shared/domain/events/recorded-event.ts";
import type { PersonalDataCategory } from "../../shared/domain/personal-data/person.ts";
import { addNeutralValues } from "../../shared/domain/personal-data/personal-fields.ts";

/**
 * Postgres types of columns, with the types of their values. Timestamps are RFC 3339 strings, and dates have the form
 * YYYY-MM-DD. All numbers are `numeric`, which holds every number that the event catalog permits.
 */
interface ColumnValues {
  uuid: string;
  text: string;
  boolean: boolean;
  bigint: string;
  numeric: number;
  date: string;
  time: string;
  timestamptz: string;
  json: unknown;
  jsonb: unknown;
}

export type ColumnType = keyof ColumnValues;

type JsonType = "json" | "jsonb";

/** JSON column whose values have the type `Value`. Without `defineJsonColumn`, the values have the type `unknown`. */
type Json<Value> = JsonType & { readonly value?: Value };

export function defineJsonColumn<Value>(type: JsonType = "jsonb"): Json<Value> {
  return type as Json<Value>;
}

export type Row = Record<string, unknown>;

type Columns = Record<string, ColumnType>;

type ValueOf<Type extends ColumnType> = Type extends Json<infer Value> ? Value : ColumnValues[Type];

/** Type of a row, from the types of its columns. */
export type RowOf<C extends Columns, Nullable extends string> = {
  [Name in keyof C]: ValueOf<C[Name]> | (Name extends Nullable ? null : never);
};

export type RecordedEventOf<Type extends CatalogEventType> = RecordedEvent<Extract<CatalogEvent, { type: Type }>>;

/** Neutral values of the columns with personal data, by category. An erasure writes these values. */
type PersonalColumns<R> = Partial<Record<PersonalDataCategory, Partial<R>>>;

/** Id, log position and time of the event that changed a row. */
export interface RowCause {
  id: string;
  position: bigint;
  occurredAt: string;
}

export interface Index {
  columns: string;
  where?: string;
  /** True if the engine itself needs the index. A rebuild then creates the index before it fills the table. */
  isUsedByEngine?: true;
}

/**
 * Read model: one table, and the pure projector that updates the table. Each event changes at most one row: the row
 * with the event's key. A handler receives the row as it was before the event, and returns the changed row. `undefined`
 * stands for a missing row. Only an erasure of a customer's data may change several rows.
 */
interface ReadModel<
  C extends Columns = Columns,
  Nullable extends string = string,
  Type extends CatalogEventType = CatalogEventType,
> {
  table: string;
  /** If the rows belong to clinics, the column `clinic_id` names the clinic. Events of other clinics are refused. */
  columns: C;
  /** Columns that may be null. All other columns are NOT NULL. */
  nullable: readonly (Nullable & keyof C)[];
  primaryKey: readonly (keyof C & string)[];
  /** Secondary indexes. A string is the list of columns in SQL. */
  indexes: readonly (string | Index)[];
  /**
   * Text columns that contain JSON for API responses: the members of an object, without the braces. The engine renders
   * the JSON when it writes the row. Concatenating the stored text in a query is cheaper than building the JSON there.
   * A rendered JSON column has the type `json`, because `jsonb` does not keep the order of members.
   */
  renderedColumns?: { [column: string]: (row: RowOf<C, Nullable>) => object };
  /**
   * Example values of the JSON columns that `renderedColumns` uses. The values must stay the same in every release, so
   * that a change of the rendered JSON changes the fingerprint of the tables.
   */
  exampleValues?: Partial<RowOf<C, Nullable>>;
  /**
   * Category of the streams whose events can revoke the access that a row grants. While such a stream is quarantined,
   * the skipped events may contain a revocation. Therefore the row with the stream's id is deleted, which denies the
   * access.
   */
  revokingStreams?: Category;
  /** Column with the id of the revoking stream; default: the primary key. */
  revokingColumn?: keyof C & string;
  /** True if the database role clinic_query cannot read the table, because no API needs its rows. */
  isHidden?: boolean;
  /** Columns that the database role clinic_audit can read, to show auditors names next to ids; default: none. */
  auditColumns?: readonly (keyof C & string)[];
  /** Columns that the database role clinic_command can read, for example to check access; default: none. */
  commandColumns?: readonly (keyof C & string)[];
  /**
   * SQL condition for the rows to delete when the sandbox with clinic `$1` is reset. If absent, a reset deletes no
   * rows.
   */
  sandboxCondition?: (schema: string) => string;
  personalColumns?: PersonalColumns<RowOf<C, Nullable>>;
  /**
   * SQL query for all rows with data of customers. The array `$1` contains the customer ids. The query returns the
   * primary key and `customer_id` of each row. An erasure writes the neutral values of `personalColumns` to these rows.
   * The table also needs a column `customer_id`, so that the engine recognizes new data of erased customers.
   */
  customerRowsSql?: (schema: string) => string;
  /**
   * Returns the columns that record the erasure of a customer's data in a row of the customer. Called for each erasure
   * of a category in `personalColumns`, even if the row has no data of the category. A rebuild cannot know whether it
   * had data, because the data keys are destroyed. Erasures may be out of order.
   */
  recordErasure?(row: RowOf<C, Nullable>, erasure: RowCause): Partial<RowOf<C, Nullable>>;
  /**
   * Read models in which a handler may look up rows with `findRows`. They must be earlier in the list of read models.
   */
  references?: readonly { table: string }[];
  /** Returns the primary key of the row that an event changes; undefined if the event changes no row. */
  key(event: RecordedEventOf<Type>): readonly string[] | undefined;
  on: {
    [T in Type]: (
      row: RowOf<C, Nullable> | undefined,
      event: RecordedEventOf<T>,
      findRows: FindRows,
    ) => RowOf<C, Nullable> | undefined;
  };
}

/** Returns the row that the current event changes in a referenced read model, before and after the change. */
export type FindRows = <Referenced extends Row>(model: {
  table: string;
  renderedColumns?: { [column: string]: (row: Referenced) => object };
}) => { before?: Referenced | undefined; after?: Referenced | undefined };

export function defineReadModel<C extends Columns, Nullable extends string, Type extends CatalogEventType>(
  model: ReadModel<C, Nullable, Type>,
): ReadModel<C, Nullable, Type> {
  return model;
}

type AnyHandler = (row: Row | undefined, event: RecordedEvent, findRows: FindRows) => Row | undefined;

export interface AnyReadModel
  extends Omit<
    ReadModel,
    "key" | "on" | "renderedColumns" | "exampleValues" | "personalColumns" | "recordErasure" | "references"
  > {
  renderedColumns?: { [column: string]: (row: Row) => object };
  exampleValues?: Row;
  personalColumns?: PersonalColumns<Row>;
  recordErasure?(row: Row, erasure: RowCause): Partial<Row>;
  references?: readonly AnyReadModel[];
  key(event: RecordedEvent): readonly string[] | undefined;
  on: Partial<Record<CatalogEventType, AnyHandler>>;
}

type ColumnName<Member extends string> = Member extends `${infer First}${infer Rest}`
  ? `${First extends Lowercase<First> ? First : `_${Lowercase<First>}`}${ColumnName<Rest>}`
  : Member;

type ColumnsOf<Data> = { [Member in keyof Data as Member extends string ? ColumnName<Member> : never]: Data[Member] };

/** Cache of column names, by the names of members of event data. */
const columnNames = new Map<string, string>();

function toColumnName(memberName: string): string {
  const cachedName = columnNames.get(memberName);
  if (cachedName !== undefined) return cachedName;
  const name = memberName.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  columnNames.set(memberName, name);
  return name;
}

/**
 * Returns the members of event data under the names of their columns: `clinicId` becomes `clinic_id`. The engine writes
 * only the columns that the read model declares, and ignores all other members.
 */
export function toColumns<Data extends object>(data: Data): ColumnsOf<Data> {
  const columns: Row = {};
  for (const member of Object.keys(data)) columns[toColumnName(member)] = (data as Row)[member];
  return columns as ColumnsOf<Data>;
}

/** Returns the named columns of a row, for example for rendered JSON. */
export function pickColumns<R extends Row, Name extends keyof R>(row: R, ...names: Name[]): Pick<R, Name> {
  const members: Partial<R> = {};
  for (const name of names) members[name] = row[name];
  return members as Pick<R, Name>;
}

/** Makes a handler that changes an existing row, and ignores an event about a missing row. */
export function createUpdateHandler<R extends Row, E>(apply: (event: E, row: R) => Partial<NoInfer<R>>) {
  return (row: R | undefined, event: E): R | undefined => (row ? { ...row, ...apply(event, row) } : undefined);
}

type CatalogData<Type extends CatalogEventType> = Extract<CatalogEvent, { type: Type }>["data"];

/**
 * Returns the neutral values of personal fields under the names of their columns. A projector that reads an event after
 * its data key was destroyed gets the same values.
 *
 * @throws {Error} if a field of the event type is not personal
 */
export function getNeutralColumns<Type extends CatalogEventType, Field extends keyof CatalogData<Type> & string>(
  type: Type,
  fields: readonly Field[],
): ColumnsOf<Pick<CatalogData<Type>, Field>> {
  const neutralValues = addNeutralValues(type, {});
  const values = fields.map((field) => {
    if (!Object.hasOwn(neutralValues, field)) throw new Error(`${type}.${field} is not declared as personal data`);
    return [field, neutralValues[field]];
  });
  return toColumns(Object.fromEntries(values) as Pick<CatalogData<Type>, Field>);
}

/** Writes neutral values to the columns of the given categories. Returns the same row if nothing changes. */
export function eraseColumns<R extends Row>(
  row: R,
  categories: readonly PersonalDataCategory[],
  personalColumns: PersonalColumns<R>,
): R {
  const neutralColumns: Partial<R> = Object.assign({}, ...categories.map((category) => personalColumns[category]));
  const isErased = Object.entries(neutralColumns).every(([name, neutralValue]) => row[name] === neutralValue);
  return isErased ? row : { ...row, ...neutralColumns };
}
