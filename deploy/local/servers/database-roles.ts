import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import pg from "pg";
import type { LocalSecrets } from "../setup/secrets.ts";
import { SetupError } from "../setup/setup-error.ts";

/** Roles that hold the privileges of the services. Migrations grant privileges to them. */
const GROUP_ROLES = ["clinic_command", "clinic_query", "clinic_audit"];

/** Time limit of a connection, long enough for a busy machine. Milliseconds. */
const CONNECT_TIMEOUT_MS = 15_000;

/** Database URL for the role of each service. */
export interface DatabaseUrls {
  /** Owner of the database, for migrations and projection. */
  projection: string;
  command: string;
  query: string;
  audit: string;
}

type Passwords = LocalSecrets["postgres"];

/**
 * Creates missing roles and a database owned by `local_projection` on the embedded server.
 *
 * @param adminUrl URL of a superuser
 */
export async function ensureEmbeddedDatabase(
  adminUrl: string,
  database: string,
  passwords: Passwords,
): Promise<DatabaseUrls> {
  await withClient(adminUrl, async (client) => {
    await ensureRoles(client, passwords);
    await ensureLogin(client, "local_projection", passwords.projection);
    const { rowCount } = await client.query("SELECT FROM pg_database WHERE datname = $1", [database]);
    const name = client.escapeIdentifier(database);
    if (!rowCount) await client.query(`CREATE DATABASE ${name} OWNER local_projection`);
    await restrictConnections(client, name);
  });
  return buildRoleUrls(
    adminUrl,
    database,
    passwords,
    buildDatabaseUrl(adminUrl, database, "local_projection", passwords.projection),
  );
}

/**
 * Creates missing roles on an external server, for the database that the URL names. The user of the URL remains owner.
 *
 * @throws {SetupError} one line if the server does not answer or the user must not create roles
 */
export async function ensureExternalDatabase(url: string, passwords: Passwords): Promise<DatabaseUrls> {
  const database = decodeURIComponent(new URL(url).pathname.slice(1));
  if (!database)
    throw new SetupError("DATABASE_URL must name a database: postgres://user:password@host:5432/clinic");
  try {
    await withClient(url, async (client) => {
      await ensureRoles(client, passwords);
      await client.query(
        `GRANT CONNECT ON DATABASE ${client.escapeIdentifier(database)} TO ${GROUP_ROLES.join(", ")}`,
      );
    });
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    if (code === "42501")
      throw new SetupError(
        `DATABASE_URL: the user cannot create the roles of the services (${message}). Use a user with CREATEROLE.`,
      );
    throw new SetupError(`DATABASE_URL: ${message || code}`);
  }
  return buildRoleUrls(url, database, passwords, url);
}

/** Creates another database on the same server, for tests. */
export async function createDatabase(
  adminUrl: string,
  database: string,
  owner: string | undefined,
): Promise<void> {
  await withClient(adminUrl, async (client) => {
    const name = client.escapeIdentifier(database);
    await client.query(`CREATE DATABASE ${name}${owner ? ` OWNER ${client.escapeIdentifier(owner)}` : ""}`);
    await restrictConnections(client, name);
  });
}

/** Drops a database and closes its connections. */
export async function dropDatabase(adminUrl: string, database: string): Promise<void> {
  await withClient(adminUrl, (client) =>
    client.query(`DROP DATABASE IF EXISTS ${client.escapeIdentifier(database)} WITH (FORCE)`),
  );
}

/** Returns the URL of another database or user on the same server, with the same options. */
export function buildDatabaseUrl(url: string, database: string, user?: string, password?: string): string {
  const result = new URL(url);
  result.pathname = `/${encodeURIComponent(database)}`;
  if (user !== undefined) result.username = user;
  if (password !== undefined) result.password = password;
  return result.href;
}

export function buildRoleUrls(
  url: string,
  database: string,
  passwords: Passwords,
  projection: string,
): DatabaseUrls {
  return {
    projection,
    command: buildDatabaseUrl(url, database, "local_command", passwords.command),
    query: buildDatabaseUrl(url, database, "local_query", passwords.query),
    audit: buildDatabaseUrl(url, database, "local_audit", passwords.audit),
  };
}

async function ensureRoles(client: pg.Client, passwords: Passwords): Promise<void> {
  for (const group of GROUP_ROLES) await createRoleIfMissing(client, `CREATE ROLE ${group} NOLOGIN`);
  await ensureLogin(client, "local_command", passwords.command);
  await ensureLogin(client, "local_query", passwords.query);
  await ensureLogin(client, "local_audit", passwords.audit);
  await client.query("GRANT clinic_command TO local_command");
  await client.query("GRANT clinic_query TO local_query");
  await client.query("GRANT clinic_audit TO local_audit");
}

async function ensureLogin(client: pg.Client, role: string, password: string): Promise<void> {
  await createRoleIfMissing(client, `CREATE ROLE ${role} LOGIN`);
  await client.query(`ALTER ROLE ${role} PASSWORD ${client.escapeLiteral(scramVerifier(password))}`);
}

async function createRoleIfMissing(client: pg.Client, sql: string): Promise<void> {
  const duplicate = ["42710", "23505"]; // it exists; another process created it at the same time
  await client.query(sql).catch((error) => {
    if (!duplicate.includes(error.code)) throw error;
  });
}

async function restrictConnections(client: pg.Client, database: string): Promise<void> {
  await client.query(`REVOKE ALL ON DATABASE ${database} FROM PUBLIC`);
  await client.query(`GRANT CONNECT ON DATABASE ${database} TO ${GROUP_ROLES.join(", ")}`);
}

/** Computes the verifier that Postgres stores, so that the password itself never appears in a server log. */
function scramVerifier(password: string): string {
  const salt = randomBytes(16);
  const salted = pbkdf2Sync(password, salt, 4096, 32, "sha256");
  const mac = (text: string) => createHmac("sha256", salted).update(text).digest();
  const storedKey = createHash("sha256").update(mac("Client Key")).digest("base64");
  return `SCRAM-SHA-256$4096:${salt.toString("base64")}$${storedKey}:${mac("Server Key").toString("base64")}`;
}

async function withClient<Result>(
  url: string,
  work: (client: pg.Client) => Promise<Result>,
): Promise<Result> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  client.on("error", () => undefined); // the running query reports it
  await client.connect();
  try {
    return await work(client);
  } finally {
    await client.end();
  }
}
