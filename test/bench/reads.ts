/**
 * Measures portal reads per second. The reference is a minimal Koa server, measured in the same run. It verifies the
 * same session and sends a stored document of the same size.
 *
 *     npm run bench -- reads
 */
import { fork } from "node:child_process";
import { once } from "node:events";
import { createIds, membershipGranted, openClinic } from "../support/clinics.ts";
import { startIdentityProvider } from "../support/portal.ts";
import { createReadModelDatabase } from "../support/read-models.ts";
import { getTestServers, mochaGlobalTeardown } from "../support/stack.ts";
import { fillClinic } from "./clinic-history.ts";
import { type LoadOptions, listPids, measureInTurn } from "./load.ts";
import { printLoad } from "./report.ts";

/** Number of appointments in the clinic's history. */
const HISTORY_LENGTH = 50_000;

const PATHS = [
  "/api/v1/clinic/context",
  "/api/v1/branches",
  "/api/v1/clinics",
  "/api/v1/services",
  "/api/v1/staff",
  "/api/v1/customers",
  "/api/v1/appointments?limit=50",
  "/api/v1/availability",
  "/api/v1/queue",
];

const children: { kill(): void }[] = [];
const [database, provider, servers] = await Promise.all([
  createReadModelDatabase(),
  startIdentityProvider(),
  getTestServers(),
]);
try {
  const ids = await openClinic(database.given);
  await fillClinic(database.admin, ids, HISTORY_LENGTH);
  // The reads of one user may use only half of the connections to Postgres.
  const userIds = createIds();
  await database.given(...userIds.map((userId) => membershipGranted(ids.clinicId, userId)));
  const users = await Promise.all(
    userIds.map(async (userId) => ({ cookie: await provider.createSessionCookie(userId) })),
  );
  const [headers = {}] = users;
  const service = await startService();
  const referenceServer = await startReferenceServer();
  await database.admin.query("CREATE TABLE reference_document (path text PRIMARY KEY, body text NOT NULL)");
  for (const path of PATHS) {
    const responseText = await (await fetch(service.origin + path, { headers })).text();
    await database.admin.query(
      "INSERT INTO reference_document VALUES ($1, $2) ON CONFLICT (path) DO UPDATE SET body = $2",
      [path.split("?")[0], responseText],
    );
    const toLoadOptions = ({ origin, pid }: Server): LoadOptions => {
      let requestCount = 0;
      return {
        origin,
        createNextRequest: () => ({ method: "GET", path, headers: users[requestCount++ % users.length] ?? {} }),
        pids: listPids({ node: { pid }, postgres: servers.components.postgres }),
      };
    };
    printLoad(path, ...(await measureInTurn(toLoadOptions(service), toLoadOptions(referenceServer))));
  }
} finally {
  for (const child of children) child.kill();
  await mochaGlobalTeardown();
}

interface Server {
  origin: string;
  pid: number;
}

async function startService(): Promise<Server> {
  return startServer(new URL("./query-api-process.ts", import.meta.url), {
    PORT: "0",
    LOG_LEVEL: "info",
    EVENTSTORE_URL: "esdb://127.0.0.1:1?tls=false",
    DATABASE_URL: database.urls.query,
    OPERATOR_NAME: "Bench",
    PORTAL_COOKIE_NAME: provider.cookieName,
    PORTAL_JWT_ISSUER: provider.issuer,
    PORTAL_JWT_SECRET: provider.secret,
    TOKEN_ISSUER: "http://127.0.0.1",
    TOKEN_JWKS_URL: "http://127.0.0.1:1/jwks.json",
  });
}

async function startReferenceServer(): Promise<Server> {
  const { secret, issuer, cookieName } = provider;
  const settings = JSON.stringify({ databaseUrl: database.urls.projection, secret, issuer, cookieName });
  return startServer(new URL("./reference-server.ts", import.meta.url), {}, [settings]);
}

async function startServer(entryUrl: URL, env: Record<string, string>, args: string[] = []): Promise<Server> {
  const child = fork(entryUrl, args, {
    execArgv: ["--import=tsx"],
    env: { ...process.env, ...env },
    stdio: ["ignore", "ignore", "inherit", "ipc"],
  });
  children.push(child);
  const [port] = (await once(child, "message")) as [number];
  return { origin: `http://127.0.0.1:${port}`, pid: child.pid as number };
}
