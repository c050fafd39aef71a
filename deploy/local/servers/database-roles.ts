import { createHash, createHmac, pbkdf2Sync, randomBytes } from "node:crypto";
import type pg from "pg";
import { createClient } from "../../../shared/postgres/client.ts";
import {
  formatConnectionString,
  getDatabaseName,
  parseConnectionString,
} from "../../../shared/postgres/connection-string.ts";
import type { LocalSecrets } from "../setup/local-root.ts";
import { SetupError } from "../setup/setup-error.ts";

/**
 * Services with two database roles: a group role, to which migrations grant privileges, and a login role in that group.
 */
const SERVICES = ["command", "query", "audit"] as const;

const GROUP_ROLES = SERVICES.map((service) => `clinic_${service}`).join(", ");

/** Long enough for a busy machine. */
const CONNECT_TIMEOUT_MS = 15_000;

/** Database URL of each service, with the service's user. The `projection` user also runs the migrations. */
export type DatabaseUrls = Record<"projection" | (typeof SERVICES)[number], string>;

type Passwords = LocalSecrets["postgres"];

/**
 * Creates the roles and the database on the embedded server if they are missing. The role `local_projection` owns the
 * database.
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
  const ownerUrl = buildDatabaseUrl(adminUrl, database, "local_projection", passwords.projection);
  return buildRoleUrls(adminUrl, database, passwords, ownerUrl);
}

/**
 * Creates missing roles on an external server, and allows them to connect to the database that the URL names. The owner
 * of the database does not change.
 *
 * @throws {SetupError} one line, for example if the server does not respond or the user cannot create roles
 */
export async function ensureExternalDatabase(url: string, passwords: Passwords): Promise<DatabaseUrls> {
  const database = getDatabaseName(parseConnectionString(url));
  if (!database) throw new SetupError("DATABASE_URL must name a database: postgres://user:password@host:5432/clinic");
  try {
    await withClient(url, async (client) => {
      await ensureRoles(client, passwords);
      const name = client.escapeIdentifier(database);
      await client.query(`GRANT CONNECT ON DATABASE ${name} TO ${GROUP_ROLES}`);
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

export function buildDatabaseUrl(url: string, database: string, user?: string, password = ""): string {
  const connectionString = parseConnectionString(url);
  return formatConnectionString({
    ...connectionString,
    path: `/${encodeURIComponent(database)}`,
    ...(user !== undefined && { credentials: `${encodeURIComponent(user)}:${encodeURIComponent(password)}@` }),
  });
}

/**
 * Returns the database URL for each service, with the service's role.
 *
 * @param url any URL of the server
 * @param ownerUrl URL of the database's owner
 */
export function buildRoleUrls(url: string, database: string, passwords: Passwords, ownerUrl: string): DatabaseUrls {
  const buildUrl = (service: (typeof SERVICES)[number]) =>
    buildDatabaseUrl(url, database, `local_${service}`, passwords[service]);
  return { projection: ownerUrl, command: buildUrl("command"), query: buildUrl("query"), audit: buildUrl("audit") };
}

async function ensureRoles(client: pg.Client, passwords: Passwords): Promise<void> {
  for (const service of SERVICES) {
    await createRoleIfMissing(client, `CREATE ROLE clinic_${service} NOLOGIN`);
    await ensureLogin(client, `local_${service}`, passwords[service]);
    await client.query(`GRANT clinic_${service} TO local_${service}`);
  }
}

async function ensureLogin(client: pg.Client, role: string, password: string): Promise<void> {
  await createRoleIfMissing(client, `CREATE ROLE ${role} LOGIN`);
  await client.query(`ALTER ROLE ${role} PASSWORD ${client.escapeLiteral(computeScramVerifier(password))}`);
}

async function createRoleIfMissing(client: pg.Client, sql: string): Promise<void> {
  const duplicateCodes = ["42710", "23505"]; // the role exists, or another process is creating it
  await client.query(sql).catch((error) => {
    if (!duplicateCodes.includes(error.code)) throw error;
  });
}

/**
 * Allows only the services' roles and the owner to connect to the database.
 *
 * @param database quoted identifier
 */
export async function restrictConnections(client: pg.Client, database: string): Promise<void> {
  await client.query(`REVOKE ALL ON DATABASE ${database} FROM PUBLIC`);
  await client.query(`GRANT CONNECT ON DATABASE ${database} TO ${GROUP_ROLES}`);
}

/** Hashes the password as Postgres does, so that the password itself does not appear in the server log. */
function computeScramVerifier(password: string): string {
  const salt = randomBytes(16);
  const saltedPassword = pbkdf2Sync(password, salt, 4096, 32, "sha256");
  const computeMac = (text: string) => createHmac("sha256", saltedPassword).update(text).digest();
  const storedKey = createHash("sha256").update(computeMac("Client Key")).digest("base64");
  return `SCRAM-SHA-256$4096:${salt.toString("base64")}$${storedKey}:${computeMac("Server Key").toString("base64")}`;
}

export async function withClient<Result>(url: string, run: (client: pg.Client) => Promise<Result>): Promise<Result> {
  const client = createClient(url, { connectionTimeoutMillis: CONNECT_TIMEOUT_MS });
  await client.connect();
  try {
    return await run(client);
  } finally {
    await client.end();
  }
}
