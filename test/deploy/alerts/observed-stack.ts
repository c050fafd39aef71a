/**
 * Starts a local stack and a Prometheus that scrapes it. The stack has a partner with a receiver, and a separate
 * process for the webhooks role.
 */
import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { setTimeout as delay } from "node:timers/promises";
import { buildDatabaseUrl, withClient } from "../../../deploy/local/servers/database-roles.ts";
import { buildNodeCommand, PROJECT_FOLDER } from "../../../deploy/local/setup/project.ts";
import type { Environment } from "../../../deploy/local/stack/environment.ts";
import type { LocalStack } from "../../../deploy/local/stack/stack.ts";
import { createServiceComponent } from "../../../deploy/local/stack/stack.ts";
import type { Component } from "../../../deploy/local/supervisor/component.ts";
import { createWorld, type World } from "../../e2e/world.ts";
import { eventually } from "../../support/eventually.ts";
import { findFreePort } from "../../support/free-ports.ts";
import { type Receiver, startReceiver } from "../../support/receiver.ts";
import { startTestStack } from "../../support/stack.ts";
import { type Prometheus, startPrometheus } from "./prometheus.ts";

export interface ObservedStack {
  servers: LocalStack["servers"];
  env: LocalStack["env"];
  /**
   * Processes of the services and servers. `dispatcher` has the role webhooks, and `projection` has the other roles.
   */
  components: LocalStack["components"] & { dispatcher: Component };
  urls: LocalStack["urls"] & { dispatcher: string };
  world: World;
  receiver: Receiver;
  endpoint: { id: string };
  prometheus: Prometheus;
  /** Runs `clinic …` and returns its output. @throws {Error} if the command fails */
  runClinic(...args: string[]): Promise<string>;
  /** Runs a statement as the superuser of Postgres. */
  query(sql: string, values?: unknown[]): Promise<Record<string, unknown>[]>;
  /** Sends creates and reads of appointments until the returned function is called. Does not repeat failed requests. */
  startLoad(pauseMs: number): () => void;
  stop(): Promise<void>;
}

/** @param settings further settings of the two processes of the projection service */
export async function startObservedStack(
  prometheusProgram: string,
  settings: Environment = {},
): Promise<ObservedStack> {
  const stack = await startTestStack({
    serviceEnv: { projection: { ...settings, ROLES: "projectors,relay" } },
    log: () => undefined,
  });
  const { servers, env } = stack;
  const dispatcherPort = await findFreePort();
  const dispatcher = createServiceComponent(
    "projection",
    { ...env.projection, ROLES: "webhooks", PORT: String(dispatcherPort) },
    servers.context,
  );
  await dispatcher.start();
  const world = await createWorld(stack);
  const receiver = await startReceiver();
  const urls = { ...stack.urls, dispatcher: `http://127.0.0.1:${dispatcherPort}` };
  const toAddress = (url: string) => new URL(url.replace(/^\w+:/, "http:")).host;
  const prometheus = await startPrometheus(prometheusProgram, {
    jobs: {
      command: [toAddress(urls.command)],
      "query-api": [toAddress(urls.queryApi)],
      audit: [toAddress(urls.audit)],
      projection: [toAddress(urls.projection), toAddress(urls.dispatcher)],
    },
    // The servers have no TLS, so the probe that only opens a connection tests all of them.
    probes: [servers.eventstoreUrl, servers.natsUrl, servers.adminDatabaseUrl].map((url) => ({
      target: toAddress(url),
      module: "postgres",
    })),
  });
  return {
    servers,
    env,
    components: { ...stack.components, dispatcher },
    urls,
    world,
    receiver,
    endpoint: await registerEndpoint(world, receiver),
    prometheus,
    runClinic: (...args) => runClinic(stack, args),
    query: (sql, values) =>
      withClient(
        buildDatabaseUrl(servers.adminDatabaseUrl, "clinic"),
        async (client) => (await client.query(sql, values)).rows,
      ),
    startLoad: (pauseMs) => startLoad(world, pauseMs),
    async stop() {
      prometheus.stop();
      await receiver.close();
      await dispatcher.kill();
      await stack.stop();
    },
  };
}

async function registerEndpoint(world: World, receiver: Receiver): Promise<{ id: string }> {
  const body = { url: receiver.url, events: ["appointment.created"] };
  return eventually("the endpoint", async () => {
    const response = await world.requestPartner("POST", "/webhook-endpoints", { body });
    return response.status === 201 && { id: response.body.endpoint.id as string };
  });
}

function runClinic({ servers }: LocalStack, args: readonly string[]): Promise<string> {
  const { secrets } = servers.root;
  const env = {
    ...process.env,
    EVENTSTORE_URL: servers.eventstoreUrl,
    DATABASE_URL: servers.databaseUrls.projection,
    NATS_URL: servers.natsUrl,
    AUDIT_SIGNING_KEYS: secrets.auditSigningKeys,
    PERSONAL_DATA_KEYS: secrets.personalDataKeys,
    WEBHOOK_SECRET_KEYS: secrets.webhookSecretKeys,
  };
  const { command, args: nodeArgs } = buildNodeCommand("bin/clinic.ts", args);
  return new Promise((resolve, reject) =>
    execFile(command, nodeArgs, { env, cwd: PROJECT_FOLDER }, (error, stdout, stderr) =>
      error ? reject(new Error(`clinic ${args.join(" ")}: ${stderr || stdout}`)) : resolve(stdout),
    ),
  );
}

function startLoad(world: World, pauseMs: number): () => void {
  let isOver = false;
  const run = async (request: () => Promise<unknown>) => {
    while (!isOver) {
      await request().catch(() => undefined);
      await delay(pauseMs);
    }
  };
  void run(() => world.createAppointment(randomUUID()));
  void run(() => world.requestPortal("/appointments?limit=5"));
  return () => {
    isOver = true;
  };
}
