import { type Command, defineCommand } from "../../../shared/command-line/command-line.ts";
import { suggestNext } from "../../../shared/command-line/format-command-line.ts";
import { option } from "../../../shared/command-line/option.ts";
import { formatTable } from "../../../shared/command-line/table.ts";
import { auditorAggregate } from "../../../shared/domain/audit/auditor.ts";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { buildNameSortSql, READ_MODEL_SCHEMA as S } from "../../../shared/postgres/read-model-schema.ts";
import { loadAggregate } from "../../handling/handle.ts";
import { type Stores, withReadModels } from "../read-models.ts";

const MAX_ROWS = 1_000;

type Row = Record<string, unknown>;

/** Definition of a `<noun> list` command that reads the read models. */
interface Listing {
  noun: string;
  summary: string;
  /** SQL after `SELECT`: the columns and the `FROM` clause. */
  select: string;
  order: string;
  /** Columns that have a filter option. */
  filters: readonly (keyof typeof filterOptions)[];
  /** Suggested next command: its first words, and the column whose value in the first row completes the command. */
  next: readonly [words: string, column: string];
}

const filterOptions = {
  clinic_id: ["clinic", option.text(uuid.optional(), "only of this clinic", "uuid")],
  application_id: ["application", option.text(uuid.optional(), "only of this application", "uuid")],
} as const;

const names = `LEFT JOIN ${S}.partner_application a USING (application_id) LEFT JOIN ${S}.clinic c USING (clinic_id)`;
const [sortName, sortClinic] = [buildNameSortSql("name"), buildNameSortSql("c.name")];

const listings: readonly Listing[] = [
  {
    ...{ noun: "clinic", summary: "Lists all clinics. Sandboxes come last.", filters: [] },
    select: `name, slug, environment, status, timezone, clinic_id AS "clinicId" FROM ${S}.clinic`,
    ...{ order: `environment, ${sortName}, clinic_id`, next: ["branch list --clinic", "clinicId"] },
  },
  {
    ...{ noun: "branch", summary: "Lists the branches of clinics.", filters: ["clinic_id"] },
    select: `b.name, b.city, c.name AS clinic, branch_id AS "branchId", clinic_id AS "clinicId"
      FROM ${S}.branch b JOIN ${S}.clinic c USING (clinic_id)`,
    order: `c.environment, ${sortClinic}, clinic_id, is_main DESC, ${buildNameSortSql("b.name")}`,
    next: ["installation list --clinic", "clinicId"],
  },
  {
    ...{ noun: "partner", summary: "Lists the applications of partners.", filters: [] },
    select: `name, environment, scopes, CASE WHEN revoked THEN 'revoked' ELSE 'active' END AS status,
      application_id AS "applicationId" FROM ${S}.partner_application`,
    order: `revoked, environment, ${sortName}, application_id`,
    next: ["installation list --application", "applicationId"],
  },
  {
    ...{ noun: "installation", summary: "Lists the installations of applications at clinics." },
    filters: ["clinic_id", "application_id"],
    select: `a.name AS application, c.name AS clinic, i.status, i.scopes, application_id AS "applicationId",
      clinic_id AS "clinicId" FROM ${S}.installation i ${names}`,
    order: `${buildNameSortSql("a.name")}, ${sortClinic}, installation_id`,
    next: ["endpoint list --application", "applicationId"],
  },
  {
    ...{ noun: "endpoint", summary: "Lists the webhook endpoints of applications. Revoked endpoints come last." },
    filters: ["clinic_id", "application_id"],
    select: `e.url, a.name AS application, c.name AS clinic, e.environment,
      concat_ws(': ', e.status, e.disabled_reason) AS status, endpoint_id AS "endpointId",
      application_id AS "applicationId" FROM ${S}.webhook_endpoint e ${names}`,
    order: "e.status = 'revoked', e.created_at DESC, endpoint_id",
    next: ["audit events --application", "applicationId"],
  },
];

function defineList(
  { noun, summary, filters, next: [words, column] }: Omit<Listing, "select" | "order">,
  find: (stores: Stores, values: unknown[]) => Promise<Row[]>,
): Command {
  return defineCommand({
    name: `${noun} list`,
    summary,
    options: {
      ...Object.fromEntries(filters.map((filter) => filterOptions[filter])),
      json: option.flag("print one JSON object per line"),
    },
    example: "",
    details: "Needs the DATABASE_URL of the projection service.",
    async run({ json, ...given }, terminal) {
      const values = filters.map((filter) => (given as Row)[filterOptions[filter][0]] ?? null);
      const rows = await withReadModels(terminal.env, (stores) => find(stores, values));
      const shown = rows.slice(0, MAX_ROWS);
      const texts = shown.map((row) =>
        Object.fromEntries(Object.entries(row).map(([key, cell]) => [key, toText(cell)])),
      );
      const lines = json ? shown.map((row) => JSON.stringify(row)) : formatTable(texts, terminal);
      for (const line of lines) await terminal.writeOutput(line);
      if (rows.length === 0) await terminal.writeError(`${noun} list: nothing to list`);
      if (rows.length > MAX_ROWS) await terminal.writeError(`${noun} list: only the first ${MAX_ROWS} are listed`);
      await suggestNext(terminal, json, rows[0] ? `${words} ${rows[0][column]}` : `${noun} --help`);
    },
  });
}

const toText = (value: unknown) => (Array.isArray(value) ? value.join(", ") : String(value ?? ""));

export const listCommands: readonly Command[] = [
  ...listings.map((listing) => {
    const conditions = listing.filters.map(
      (filter, index) => `($${index + 1}::uuid IS NULL OR ${filter} = $${index + 1})`,
    );
    const sql = `SELECT ${listing.select} WHERE ${["true", ...conditions].join(" AND ")}
      ORDER BY ${listing.order} LIMIT ${MAX_ROWS + 1}`;
    return defineList(listing, async ({ pool }, values) => (await pool.query<Row>(sql, values)).rows);
  }),
  defineList(
    {
      ...{ noun: "auditor", summary: "Lists the auditors that the audit index knows, the latest first.", filters: [] },
      next: ["audit accesses --auditor", "auditorId"],
    },
    listAuditors,
  ),
];

/** Lists the auditors. Reads their names from the event log, because the audit index does not contain the names. */
async function listAuditors({ pool, readableLog }: Stores): Promise<Row[]> {
  const { rows } = await pool.query<{ id: string }>(
    `SELECT substr(stream, strpos(stream, '-') + 1) AS id FROM audit.event
      WHERE type = 'AuditorRegistered' AND stream LIKE 'auditor-%' ORDER BY position DESC LIMIT ${MAX_ROWS + 1}`,
  );
  const auditors: Row[] = [];
  for (const { id } of rows) {
    const { state } = await loadAggregate(readableLog, auditorAggregate, id);
    if (!state) continue;
    const { name, revoked, expiresAt, clinicIds } = state;
    const status = revoked ? "revoked" : (expiresAt ?? "9") <= new Date().toISOString() ? "expired" : "active";
    auditors.push({ name, status, expiresAt, clinicIds: clinicIds ?? "all", auditorId: id });
  }
  return auditors;
}
