import { z } from "zod";

/** A record of the partner API: its schema, its SQL expression, and functions that convert objects and rows to it. */
export interface PublicRecord<Shape extends z.ZodRawShape> {
  schema: z.ZodObject<Shape, z.core.$strict>;
  /** SQL expression that builds the record as a JSON object from a row of the record's table. */
  sql: string;
  /** Picks the fields of the record from an object with the same names. */
  pick(values: z.output<z.ZodObject<Shape>>): z.output<z.ZodObject<Shape>>;
  /** Picks the fields whose columns are in a row of the record's table. Omits all other fields. */
  fromRow(row: object): Partial<z.output<z.ZodObject<Shape>>>;
  extend<More extends z.ZodRawShape>(shape: More, sources?: Sources<More>): PublicRecord<Shape & More>;
  omit<Name extends keyof Shape & string>(...names: Name[]): PublicRecord<Omit<Shape, Name>>;
}

/** Column or SQL expression of a field. By default, the column has the name of the field in snake case. */
type Sources<Shape> = { readonly [Name in keyof Shape]?: string };

/**
 * Declares a record by its fields. Schema, SQL and the conversion of rows are derived from the fields. The SQL converts
 * each field with an instant schema to RFC 3339 text.
 *
 * @param alias alias of the record's table in the SQL; empty if the columns need no alias
 */
export function defineRecord<Shape extends z.ZodRawShape>(
  alias: string,
  shape: Shape,
  sources: Sources<Shape> = {},
): PublicRecord<Shape> {
  const getSource = (name: string) => (sources as Record<string, string>)[name] ?? toColumn(name);
  const toSql = ([name, schema]: [string, z.core.$ZodType]) => {
    const source = getSource(name);
    const sql = isColumn(source) && alias !== "" ? `${alias}.${source}` : source;
    return `'${name}', ${isInstant(schema) ? `rfc3339(${sql})` : sql}`;
  };
  const pickBy = (getKey: (name: string) => string, values: object) =>
    Object.fromEntries(
      Object.keys(shape).flatMap((name) =>
        getKey(name) in values ? [[name, (values as Record<string, unknown>)[getKey(name)]]] : [],
      ),
    ) as z.output<z.ZodObject<Shape>>;
  return {
    schema: z.strictObject(shape),
    sql: `json_build_object(${Object.entries(shape).map(toSql).join(", ")})`,
    pick: (values) => pickBy((name) => name, values),
    fromRow: (row) => pickBy(getSource, row),
    extend: (more, moreSources) => defineRecord(alias, { ...shape, ...more }, { ...sources, ...moreSources } as never),
    omit(...names) {
      const remaining = Object.entries(shape).filter(([name]) => !(names as string[]).includes(name));
      return defineRecord(alias, Object.fromEntries(remaining), sources) as never;
    },
  };
}

const isColumn = (source: string) => /^\w+$/.test(source);

function isInstant(schema: z.core.$ZodType): boolean {
  return schema instanceof z.ZodNullable ? isInstant(schema.unwrap()) : schema instanceof z.ZodISODateTime;
}

function toColumn(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}
