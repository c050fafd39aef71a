/** Scenarios: Postgres is down, a table is locked, WAL cannot be archived, or a process has too many connections. */
import { chmodSync, mkdirSync, renameSync } from "node:fs";
import { connect, type Socket } from "node:net";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type pg from "pg";
import { createSessionCookie } from "../../../../deploy/local/demo-data/credentials.ts";
import { buildDatabaseUrl } from "../../../../deploy/local/servers/database-roles.ts";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../../deploy/local/setup/project.ts";
import { createComponent } from "../../../../deploy/local/supervisor/component.ts";
import { connectEventStore } from "../../../../shared/eventstore/connect.ts";
import { createClient } from "../../../../shared/postgres/client.ts";
import { READ_MODEL_SCHEMA } from "../../../../shared/postgres/read-model-schema.ts";
import { grantOwnership } from "../../../e2e/world.ts";
import { eventually } from "../../../support/eventually.ts";
import { createPlainLog } from "../../../support/plain-log.ts";
import { makeTestRoot } from "../../../support/stack.ts";
import { type ObservedStack, startObservedStack } from "../observed-stack.ts";
import { shorten } from "../rules.ts";
import { type Scenario, type ScenarioGroup, WINDOW_SECONDS } from "../scenario.ts";
import { requireNotReady, requireStatus, requireText } from "./processes.ts";

const LOAD_PAUSE_MS = 1_000;

/** Number of portal users. One user alone can occupy at most half of the connection pool. */
const USERS = 3;
const READS_PER_USER = 15;

/** Threshold of the alert ProjectionLagging. Seconds. */
const LAG_SECONDS = 60;

const ARCHIVE_AGE_SECONDS = shorten(900);

const MAX_DESCRIPTORS = 256;
const CONNECTIONS = 200;

export const postgresGroup: ScenarioGroup = {
  alerts: ["RateLimitsNotShared", "ServiceNotReady", "ProjectionWaiting"],
  async start(prometheusProgram) {
    const { components, urls, prometheus, startLoad, runClinic, stop } = await startObservedStack(prometheusProgram);
    const stopLoad = startLoad(LOAD_PAUSE_MS);
    return {
      prometheus,
      scenarios: [
        {
          cause: "Postgres was stopped while a partner created appointments.",
          alerts: [
            { alert: "RateLimitsNotShared", labels: { job: "command" }, clearSeconds: shorten(300) },
            { alert: "ServiceNotReady", labels: { job: "query-api" } },
            { alert: "ProjectionWaiting", labels: { role: "projectors" } },
            { alert: "ProjectionWaiting", labels: { role: "webhooks" } },
          ],
          create: () => components.postgres.stop(),
          async followRunbook() {
            await requireNotReady(urls.queryApi, /^503 .*"postgres":"unavailable"/);
            await requireNotReady(urls.projection, /^503 .*"projectors":"waits/);
            await requireStatus({ runClinic }, /ECONNREFUSED/);
            await components.postgres.start();
          },
        },
      ],
      stop: async () => {
        stopLoad();
        await stop();
      },
    };
  },
};

export const lockGroup: ScenarioGroup = {
  alerts: ["PostgresPoolExhausted", "RequestsSlow", "ProjectionLagging", "WalArchivingStopped", "FileDescriptorsLow"],
  async start(prometheusProgram) {
    const observed = await startObservedStack(prometheusProgram);
    const archive = await startArchiving(observed);
    const lock = createLock(observed);
    return {
      prometheus: observed.prometheus,
      scenarios: [lock.scenario, loseArchive(observed, archive), openConnections(observed)],
      async stop() {
        lock.stop();
        await observed.stop();
      },
    };
  },
};

function createLock(observed: ObservedStack): { scenario: Scenario; stop(): void } {
  const { servers, urls, startLoad, query } = observed;
  let isOver = false;
  let holder: pg.Client;
  const read = async (headers: { Cookie: string }) => {
    while (!isOver) await fetch(`${urls.queryApi}/api/v1/appointments`, { headers }).catch(() => delay(LOAD_PAUSE_MS));
  };
  let stopLoad = () => {};
  const scenario: Scenario = {
    cause: `A session locked a read model, while ${USERS} users sent ${USERS * READS_PER_USER} concurrent reads.`,
    alerts: [
      { alert: "PostgresPoolExhausted", labels: { pool: "clinic-query-api" } },
      { alert: "RequestsSlow", labels: { job: "query-api" }, clearSeconds: WINDOW_SECONDS },
      { alert: "ProjectionLagging", labels: { role: "projectors" }, delaySeconds: LAG_SECONDS },
    ],
    async create() {
      const cookies = await createUsers(observed);
      holder = createClient(buildDatabaseUrl(servers.adminDatabaseUrl, "clinic"), {});
      holder.on("error", () => undefined); // the runbook ends the session
      await holder.connect();
      // Without this setting, Postgres ends the session before the alerts fire.
      await holder.query("SET idle_in_transaction_session_timeout = 0; BEGIN");
      await holder.query(`LOCK TABLE ${READ_MODEL_SCHEMA}.appointment`);
      stopLoad = startLoad(LOAD_PAUSE_MS);
      for (const cookie of cookies)
        for (let count = 0; count < READS_PER_USER; count += 1) void read({ Cookie: cookie });
    },
    async followRunbook() {
      const waiting = await query(
        "SELECT DISTINCT wait_event_type FROM pg_stat_activity WHERE application_name = 'clinic-query-api' AND state = 'active'",
      );
      requireText(JSON.stringify(waiting), /"Lock"/);
      await query(`SELECT pg_terminate_backend(blocker) FROM pg_stat_activity a, unnest(pg_blocking_pids(a.pid)) blocker
        WHERE application_name = 'clinic-query-api'`);
      isOver = true; // the load goes back to its normal level
    },
  };
  return {
    scenario,
    stop() {
      isOver = true;
      stopLoad();
    },
  };
}

/** Creates portal users of the clinic, and waits until they can read. @returns a session cookie for each user */
async function createUsers({ servers, env, urls, world: { clinicId } }: ObservedStack): Promise<string[]> {
  const client = connectEventStore(servers.eventstoreUrl, "test");
  const log = createPlainLog(client);
  const portal = {
    jwtSecret: servers.root.secrets.portalJwtSecret,
    jwtIssuer: env.queryApi.PORTAL_JWT_ISSUER as string,
    cookieName: env.queryApi.PORTAL_COOKIE_NAME as string,
  };
  const cookies: string[] = [];
  for (let count = 0; count < USERS; count += 1) {
    const user = { id: await grantOwnership(log, clinicId), email: "owner@example.test" };
    const cookie = await createSessionCookie(user, portal, Date.now());
    cookies.push(cookie);
    const headers = { Cookie: cookie };
    await eventually("access", async () => (await fetch(`${urls.queryApi}/api/v1/appointments`, { headers })).ok);
  }
  await client.dispose();
  return cookies;
}

/** Enables WAL archiving and restarts Postgres. @returns the archive folder */
async function startArchiving({ components, query }: ObservedStack): Promise<string> {
  const folder = path.join(makeTestRoot(), "wal");
  mkdirSync(folder);
  chmodSync(folder, 0o777);
  await query("ALTER SYSTEM SET archive_mode = 'on'");
  await query(`ALTER SYSTEM SET archive_command = 'cp %p ${folder}/%f'`);
  await query("ALTER SYSTEM SET archive_timeout = 10");
  await components.postgres.stop();
  await components.postgres.start();
  // Before the first checkpoint after a start, Postgres 15 and later ignore archive_timeout.
  await query("CHECKPOINT");
  await eventually("archived WAL", async () => {
    const [row] = await query("SELECT archived_count > 0 AS done FROM pg_stat_archiver").catch(() => []);
    return row?.done === true;
  });
  return folder;
}

function loseArchive({ query }: ObservedStack, folder: string): Scenario {
  const lostFolder = `${folder}.lost`;
  return {
    cause: "The folder of the archive was renamed, so that archive_command failed.",
    alerts: [{ alert: "WalArchivingStopped", delaySeconds: ARCHIVE_AGE_SECONDS }],
    create: async () => renameSync(folder, lostFolder),
    async followRunbook() {
      const [row] = await query("SELECT last_failed_time > last_archived_time AS fails FROM pg_stat_archiver");
      if (row?.fails !== true) throw new Error("pg_stat_archiver shows no failure");
      renameSync(lostFolder, folder);
    },
  };
}

function openConnections({ components, env, urls, servers }: ObservedStack): Scenario {
  const { command, args } = buildNodeCommand("command/audit/main.ts");
  const limitedAudit = createComponent(
    "audit",
    () => ({
      command: "prlimit",
      args: [`--nofile=${MAX_DESCRIPTORS}`, "--", command, ...args],
      env: env.audit,
      cwd: PROJECT_FOLDER,
      isReady: async () => (await fetch(`${urls.audit}/health/ready`).catch(() => undefined))?.ok ?? false,
    }),
    servers.context,
  );
  const { port } = new URL(urls.audit);
  const sockets = new Set<Socket>();
  let isOver = false;
  /** Opens a connection and sends a request every three seconds, because the service closes idle connections. */
  const open = () => {
    if (isOver) return;
    const socket = connect(Number(port), "127.0.0.1");
    sockets.add(socket);
    const sendRequest = () => socket.write("GET /health/live HTTP/1.1\r\nHost: audit\r\n\r\n");
    const timer = setInterval(sendRequest, 3_000);
    sendRequest();
    socket.resume().on("error", () => undefined);
    socket.on("close", () => {
      clearInterval(timer);
      sockets.delete(socket);
      setTimeout(open, 100);
    });
  };
  return {
    cause: `A process of audit with a limit of ${MAX_DESCRIPTORS} file descriptors got ${CONNECTIONS} connections.`,
    alerts: [{ alert: "FileDescriptorsLow", labels: { job: "audit" } }],
    async create() {
      await components.audit.stop();
      await limitedAudit.start();
      for (let count = 0; count < CONNECTIONS; count += 1) open();
    },
    async followRunbook() {
      await limitedAudit.stop();
      await components.audit.start(); // without the limit
      isOver = true;
      for (const socket of sockets) socket.destroy();
    },
  };
}
