import type pg from "pg";
import type { Command } from "../../shared/command-line/command-line.ts";
import { InputError } from "../../shared/command-line/failure.ts";
import { formatCommandLine } from "../../shared/command-line/format-command-line.ts";
import { type Option, toOptionName } from "../../shared/command-line/option.ts";
import { uuid } from "../../shared/domain/events/fields.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { withReadModels } from "./read-models.ts";

/** Objects that options accept by name, by kind: the table in the read models, and the columns that contain a name. */
const NAMED_OBJECTS: Record<string, { table: string; names: string; isOfClinic?: true; condition?: string }> = {
  clinic: { table: "clinic", names: "name, slug" },
  branch: { table: "branch", names: "name", isOfClinic: true },
  application: { table: "partner_application", names: "name" },
  endpoint: { table: "webhook_endpoint", names: "url", condition: "status <> 'revoked'" },
  resource: { table: "resource", names: "name", isOfClinic: true },
  service: { table: "service", names: "name", isOfClinic: true },
};

export const NAME_NOTE = `In place of the id of a clinic, a branch, an application, an endpoint, a resource or a service, options accept
its unique name, the slug of a clinic, or the URL of an endpoint.`;

/** Lets a command accept unique names in place of ids. */
export function withNames(command: Command): Command {
  const options = Object.fromEntries(
    Object.entries(command.options).map(([key, option]) => [
      key,
      acceptsName(key, option)
        ? { ...option, placeholder: option.placeholder?.replace(/uuid(s?)/, "id$1 or name$1") }
        : option,
    ]),
  );
  return {
    ...command,
    options,
    run: async (given, terminal) => command.run(await resolve(command, given, terminal.env), terminal),
  };
}

const toKind = (key: string) => key.replace(/(?<=ch)es$|s$/, "");

const acceptsName = (key: string, { placeholder = "", isGenerated }: Option) =>
  placeholder.startsWith("uuid") && !isGenerated && toKind(key) in NAMED_OBJECTS;

async function resolve({ options }: Command, given: Record<string, unknown>, env: NodeJS.ProcessEnv) {
  const values = { ...given };
  const named = Object.entries(given).flatMap(([key, value]) => {
    const texts = [value].flat().filter((text) => typeof text === "string");
    const hasName = texts.some((text) => text !== "" && !uuid.safeParse(text).success);
    return hasName && options[key] && acceptsName(key, options[key]) ? [{ key, kind: toKind(key) }] : [];
  });
  if (named.length === 0) return values;
  await withReadModels(env, async ({ pool }) => {
    // The names of branches are unique only in their clinic, so its id is needed first.
    for (const { key, kind } of named.sort((a, b) => Number(b.kind === "clinic") - Number(a.kind === "clinic"))) {
      const find = (text: unknown) => findId(pool, key, kind, String(text), values.clinic);
      const value = values[key];
      values[key] = Array.isArray(value) ? await Promise.all(value.map(find)) : await find(value);
    }
  });
  return values;
}

/**
 * Returns the id of the object with the given name. Returns an id or an empty text unchanged.
 *
 * @throws {InputError} if no object has the name, or several have it
 */
async function findId(pool: pg.Pool, key: string, kind: string, text: string, clinic: unknown): Promise<string> {
  if (text === "" || uuid.safeParse(text).success) return text;
  const { table, names, isOfClinic, condition = "true" } = NAMED_OBJECTS[kind] as (typeof NAMED_OBJECTS)[string];
  const clinicId = isOfClinic ? uuid.safeParse(clinic).data : undefined;
  const { rows } = await pool.query<{ id: string }>(
    `SELECT ${toIdColumn(kind)} AS id FROM ${READ_MODEL_SCHEMA}.${table}
      WHERE $1 IN (${names}) AND ${condition} ${isOfClinic ? "AND ($2::uuid IS NULL OR clinic_id = $2)" : ""}
      ORDER BY 1 LIMIT 10`,
    [text, ...(isOfClinic ? [clinicId] : [])],
  );
  const [row, ...others] = rows;
  const option = toOptionName(key);
  if (!row)
    throw new InputError(`${option}: no ${kind} has the name or id ${JSON.stringify(text)}${suggestList(kind)}`);
  if (others.length > 0)
    throw new InputError(`${option}: several have this name, so use an id: ${rows.map(({ id }) => id).join(", ")}`);
  return row.id;
}

const toIdColumn = (kind: string) => `${kind}_id`;

function suggestList(kind: string): string {
  const noun = { clinic: "clinic", branch: "branch", application: "partner", endpoint: "endpoint" }[kind];
  return noun === undefined ? "" : `; \`${formatCommandLine(`${noun} list`)}\` shows the names`;
}

/** Returns the name of an object; undefined if the read models do not have it. */
export async function findName(pool: pg.Pool, key: string, id: string): Promise<string | undefined> {
  const object = NAMED_OBJECTS[key];
  if (!object) return undefined;
  const [column] = object.names.split(",");
  const { rows } = await pool.query<{ name: string }>(
    `SELECT ${column} AS name FROM ${READ_MODEL_SCHEMA}.${object.table} WHERE ${toIdColumn(key)} = $1`,
    [id],
  );
  return rows[0]?.name;
}
