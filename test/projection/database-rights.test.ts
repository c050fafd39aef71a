import { randomBytes } from "node:crypto";
import { readFile } from "node:fs/promises";
import { expect } from "chai";
import { withClient } from "../../deploy/local/servers/database-roles.ts";
import { ensureReadModels, migrate } from "../../projection/prepare-database.ts";
import { readModels } from "../../projection/read-models/all.ts";
import { READ_MODEL_SCHEMA } from "../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../shared/runtime/logger.ts";
import { createTestPool } from "../support/connections.ts";
import { getTestServers } from "../support/stack.ts";

const GUIDE = new URL("../../docs/operations/users-and-rights.md", import.meta.url);
const LOGIN_ROLES = ["projection", "query_api", "command", "audit"];

describe("the rights of the database roles", () => {
  const suffix = randomBytes(4).toString("hex");
  const database = `rights_${suffix}`;
  let adminUrl: string;
  let guide: string;

  before(async () => {
    ({ adminDatabaseUrl: adminUrl } = await getTestServers());
    guide = await readFile(GUIDE, "utf8");
  });
  after(() =>
    withClient(adminUrl, async (client) => {
      await client.query(`DROP DATABASE IF EXISTS ${database} WITH (FORCE)`);
      for (const role of LOGIN_ROLES) await client.query(`DROP ROLE IF EXISTS ${role}_${suffix}`);
    }),
  );

  /** Runs the statements of the guide with unused names for database and users. The group roles exist already. */
  async function createRolesAndDatabase(): Promise<string> {
    const [, script = ""] = /```sql\n([\s\S]*?)```/.exec(guide) ?? [];
    const password = randomBytes(16).toString("hex");
    const statements = script
      .replaceAll("<password>", password)
      .replaceAll(/(?<=(ROLE|OWNER) )(projection|query_api|command|audit)\b/g, `$&_${suffix}`)
      .replaceAll(/(?<=DATABASE )clinic\b/g, database)
      .split(";")
      .filter((statement) => statement.trim() !== "" && !statement.includes("NOLOGIN"));
    expect(statements).to.have.length(7);
    await withClient(adminUrl, async (client) => {
      for (const statement of statements) await client.query(statement);
    });
    const url = new URL(adminUrl);
    Object.assign(url, { username: `projection_${suffix}`, password, pathname: `/${database}` });
    return url.href;
  }

  /** Returns the rights that the guide documents, each as "role table rights". */
  function listDocumentedRights(): string[] {
    return [...guide.matchAll(/^\| `(clinic_\w+)` \| (.+) \| ([A-Z, ]+) \|$/gm)].flatMap(
      ([, role, cell = "", rights]) => {
        const [, names = cell, suffix = ""] = /^((?:`[^`]+`(?:, )?)+?)(, some columns)?$/.exec(cell) ?? [];
        const tables = cell.includes("except") ? [cell] : names.split(", ");
        return tables.map((table) => `${role} ${table}${suffix} ${rights}`.replaceAll("`", ""));
      },
    );
  }

  it("the documented roles suffice for migrations and read models, and have only the documented rights", async () => {
    const ownerUrl = await createRolesAndDatabase();
    const logger = createLogger("test", "silent");
    await migrate(ownerUrl, logger);
    // Unlike those of `pg.Pool`, these connections may be ended by the removal of the database while they close.
    const pool = createTestPool(ownerUrl, { size: 1 });
    await ensureReadModels(pool, readModels);
    const { rows } = await pool.query<{ right: string; table: string }>(RIGHTS_SQL);
    const isReadModel = ({ right, table }: { right: string; table: string }) =>
      right.startsWith(`clinic_query ${READ_MODEL_SCHEMA}.`) &&
      right.endsWith(" SELECT") &&
      !["webhook_secret", "quarantined_stream"].includes(table);
    const readModelCount = rows.filter(isReadModel).length;
    // The role also reads the table `checkpoint`.
    expect(readModelCount).to.equal(readModels.filter(({ isHidden }) => !isHidden).length + 1);
    const summarizedRights = [
      ...rows.filter((row) => !isReadModel(row)).map(({ right }) => right),
      `clinic_query ${READ_MODEL_SCHEMA}.*, except webhook_secret and quarantined_stream SELECT`,
    ];
    expect(summarizedRights).to.have.members(listDocumentedRights());
  });
});

/** Lists the rights of the group roles on tables and on columns of tables. */
const RIGHTS_SQL = `
  WITH role AS (SELECT oid, rolname FROM pg_roles WHERE rolname LIKE 'clinic\\_%'),
  privilege AS (
    SELECT acl.grantee, c.oid, acl.privilege_type, '' AS note
      FROM pg_class c, aclexplode(c.relacl) acl
    UNION
    SELECT acl.grantee, a.attrelid, acl.privilege_type, ', some columns'
      FROM pg_attribute a, aclexplode(a.attacl) acl)
  SELECT c.relname AS table,
         format('%s %s.%s%s %s', rolname, nspname, relname, note, string_agg(privilege_type, ', ' ORDER BY privilege_type))
           AS right
    FROM privilege JOIN role ON role.oid = grantee JOIN pg_class c ON c.oid = privilege.oid
    JOIN pg_namespace n ON n.oid = relnamespace
   GROUP BY rolname, nspname, relname, note`;
