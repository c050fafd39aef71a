import { createHash } from "node:crypto";
import { BEFORE_FIRST_EVENT } from "../../shared/eventstore/read-log.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import type { AnyReadModel, ColumnType, Index, Row } from "./read-model.ts";

export function buildReadModelDdl(models: readonly AnyReadModel[], schema = READ_MODEL_SCHEMA): string {
  return buildTablesDdl(models, schema) + buildIndexesDdl(models, schema);
}

/**
 * Returns the statements that create a schema of empty read models with its checkpoint. The database role clinic_query
 * can read all tables that are not hidden. The only secondary indexes are the indexes that the engine uses. A rebuild
 * creates all other indexes after it fills the tables.
 */
export function buildTablesDdl(models: readonly AnyReadModel[], schema: string): string {
  const statements = [
    `CREATE SCHEMA ${schema}`,
    `GRANT USAGE ON SCHEMA ${schema} TO clinic_query, clinic_command, clinic_audit`,
    `CREATE TABLE ${schema}.checkpoint
      (position bigint NOT NULL, event_id uuid, fingerprint text NOT NULL, filled boolean NOT NULL)`,
    `INSERT INTO ${schema}.checkpoint VALUES (${BEFORE_FIRST_EVENT}, NULL, '${computeFingerprint(models)}', false)`,
    `GRANT SELECT ON ${schema}.checkpoint TO clinic_query, clinic_command`,
    `CREATE TABLE ${schema}.quarantined_stream
      (stream text PRIMARY KEY, revision bigint NOT NULL, position bigint NOT NULL, event_type text NOT NULL,
       cause text NOT NULL, clinic_id uuid, since timestamptz NOT NULL, events bigint NOT NULL,
       unmatched_position bigint)`,
    `CREATE TABLE ${schema}.event_outcome (event_type text PRIMARY KEY, outcomes text NOT NULL)`,
    // A partner's position in the feed or in the list of changes is valid only until a rebuild adds events before it.
    `GRANT SELECT (stream, clinic_id) ON ${schema}.quarantined_stream TO clinic_query`,
    `CREATE INDEX ON ${schema}.quarantined_stream (clinic_id)`,
  ];
  for (const model of models) {
    statements.push(buildTableDdl(model, schema), ...buildModelIndexesDdl(model, schema, true));
    if (!model.isHidden) statements.push(`GRANT SELECT ON ${schema}.${model.table} TO clinic_query`);
    if (model.auditColumns) {
      statements.push(`GRANT SELECT (${model.auditColumns.join(", ")}) ON ${schema}.${model.table} TO clinic_audit`);
    }
    if (model.commandColumns) {
      statements.push(
        `GRANT SELECT (${model.commandColumns.join(", ")}) ON ${schema}.${model.table} TO clinic_command`,
      );
    }
  }
  return `${statements.join(";\n")};\n`;
}

/** Returns idempotent statements for the secondary indexes. */
export function buildIndexesDdl(models: readonly AnyReadModel[], schema: string): string {
  const statements = models.flatMap((model) => buildModelIndexesDdl(model, schema));
  return statements.map((statement) => `${statement};\n`).join("");
}

const fingerprints = new WeakMap<readonly AnyReadModel[], string>();

/**
 * Returns a hash of all table definitions and of the JSON that the tables contain. The hash shows whether the tables in
 * a database belong to this release.
 */
export function computeFingerprint(models: readonly AnyReadModel[]): string {
  const cachedFingerprint = fingerprints.get(models);
  if (cachedFingerprint !== undefined) return cachedFingerprint;
  const declarations = models.flatMap((model) => [
    buildTableDdl(model, "s"),
    ...buildModelIndexesDdl(model, "s"),
    ...Object.values(model.renderedColumns ?? {}).map((render) => JSON.stringify(render(createExampleRow(model)))),
  ]);
  const fingerprint = createHash("sha256").update(declarations.join("\n")).digest("hex");
  fingerprints.set(models, fingerprint);
  return fingerprint;
}

const EXAMPLE_VALUES: Record<ColumnType, unknown> = {
  uuid: "00000000-0000-4000-8000-000000000000",
  text: "text",
  boolean: true,
  bigint: "1",
  numeric: 1.5,
  date: "2000-01-01",
  time: "00:00:00",
  timestamptz: "2000-01-01T00:00:00.000Z",
  json: {},
  jsonb: {},
};

/**
 * Creates a row with the same values in every release, so that a change of the rendered JSON changes the fingerprint.
 */
function createExampleRow({ columns, exampleValues }: AnyReadModel): Row {
  const row = Object.fromEntries(Object.entries(columns).map(([name, type]) => [name, EXAMPLE_VALUES[type]]));
  return { ...row, ...exampleValues };
}

function buildTableDdl(model: AnyReadModel, schema: string): string {
  const columns = Object.entries(model.columns).map(
    ([name, type]) => `${name} ${type}${model.nullable.includes(name) ? "" : " NOT NULL"}`,
  );
  columns.push(...Object.keys(model.renderedColumns ?? {}).map((name) => `${name} text NOT NULL`));
  return `CREATE TABLE ${schema}.${model.table} (${columns.join(", ")}, PRIMARY KEY (${model.primaryKey.join(", ")}))`;
}

function buildModelIndexesDdl(model: AnyReadModel, schema: string, isEngineIndexOnly = false): string[] {
  return model.indexes.flatMap((index, ordinal) => {
    const { columns, where, isUsedByEngine }: Index = typeof index === "string" ? { columns: index } : index;
    if (isEngineIndexOnly && !isUsedByEngine) return [];
    const ddl = `CREATE INDEX IF NOT EXISTS ${model.table}_${ordinal + 1} ON ${schema}.${model.table} (${columns})`;
    return where === undefined ? ddl : `${ddl} WHERE ${where}`;
  });
}
