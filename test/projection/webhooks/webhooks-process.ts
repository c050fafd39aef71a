/**
 * Process with only the webhooks role, which a test can kill. It can also kill itself at a given step. The variable
 * WORLD contains the settings as JSON. The process prints `loaded`, starts the role after any input, and then prints
 * `ready`.
 */
import { once } from "node:events";
import { startWebhooks, type WebhooksOptions } from "../../../projection/webhooks/webhooks.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { type KillingStep, killAt } from "./killed-at.ts";
import { BRAND, SECRET_KEYS } from "./service-settings.ts";
import type { WorldServers } from "./world.ts";

type Settings = WorldServers &
  Pick<WebhooksOptions, "retryScheduleSeconds" | "timeoutMs"> & { step?: KillingStep; signal?: NodeJS.Signals };

const {
  eventstoreUrl,
  databaseUrl,
  natsUrl,
  step,
  signal = "SIGKILL",
  ...options
} = JSON.parse(process.env.WORLD ?? "") as Settings;
const logger = createLogger("child", "fatal");
const pool = createPool({ url: databaseUrl, applicationName: "child", size: 4, statementTimeoutMs: 30_000, logger });
const client = connectEventStore(eventstoreUrl, "child");
const secretReader = createSecretBox(SECRET_KEYS);
const deps = {
  client,
  pool,
  databaseUrl,
  nats: { NATS_URL: natsUrl },
  logger,
  secretReader,
  brand: BRAND,
  allowsLoopback: true,
  connectTimeoutMs: 1_000,
};
if (step) killAt(step, pool, signal);
process.stdout.write("loaded\n");
await once(process.stdin, "data");
startWebhooks({ ...options, ...deps, log: createEventLog(client) });
process.stdout.write("ready\n");
