import { randomBytes } from "node:crypto";
import type pg from "pg";
import { startAuditService } from "../../command/audit/start.ts";
import type { DatabaseUrls } from "../../deploy/local/servers/database-roles.ts";
import { startProjection } from "../../projection/start.ts";
import { startQueryApi } from "../../query-api/start.ts";
import type { RunningService } from "../../shared/runtime/run-service.ts";
import { createSigningKeys } from "../command/audit/world.ts";
import { queryEnvironment } from "./query-environment.ts";
import { autoStop } from "./resources.ts";
import { getTestServers } from "./stack.ts";

/** Lists the sessions that hold a lock on the database's read models, with their application names. */
export async function listLockHolders(pool: pg.Pool): Promise<{ pid: number; name: string }[]> {
  const { rows } = await pool.query<{ pid: number; name: string }>(
    `SELECT pid, application_name AS name FROM pg_locks JOIN pg_stat_activity USING (pid)
      WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted AND datname = current_database() ORDER BY name`,
  );
  return rows;
}

/** Starts all services that lock their read models. */
export async function startReadModelUsers(
  urls: DatabaseUrls,
): Promise<Record<"projection" | "queryApi" | "audit", RunningService>> {
  const { eventstoreUrl, natsUrl } = await getTestServers();
  const keys = { current: "a", keys: { a: randomBytes(32).toString("base64") } };
  const projection = await autoStop(
    startProjection({
      ...{ EVENTSTORE_URL: eventstoreUrl, DATABASE_URL: urls.projection, NATS_URL: natsUrl },
      ...{ PORT: "0", LOG_LEVEL: "fatal", ROLES: "webhooks", WEBHOOK_SECRET_KEYS: JSON.stringify(keys) },
    }),
  );
  const queryApi = await autoStop(startQueryApi({ ...queryEnvironment, DATABASE_URL: urls.query }));
  const audit = await autoStop(
    startAuditService({
      ...{ EVENTSTORE_URL: eventstoreUrl, DATABASE_URL: urls.audit, PORT: "0", LOG_LEVEL: "fatal" },
      ...{ AUDIT_SIGNING_KEYS: await createSigningKeys(), PERSONAL_DATA_KEYS: JSON.stringify(keys) },
      AUDIT_TREE_HEAD_INTERVAL_MS: "0",
    }),
  );
  return { projection, queryApi, audit };
}
