/** The webhooks role alone, as a process that a test can kill. Settings come as JSON in WORLD; it says `ready`. */
import { startWebhooks, type WebhooksOptions } from "../../../projection/webhooks/webhooks.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { BRAND, SECRET_KEYS, type WorldServers } from "./world.ts";

type Settings = WorldServers & Pick<WebhooksOptions, "retrySchedule" | "timeoutMs">;

const { eventstoreUrl, databaseUrl, natsUrl, ...more } = JSON.parse(process.env.WORLD ?? "") as Settings;
const logger = createLogger("child", "fatal");
const pool = createPool({
  url: databaseUrl,
  applicationName: "child",
  size: 4,
  statementTimeout: 5_000,
  logger,
});
const client = connectEventStore(eventstoreUrl, "child");
const secrets = createSecretBox(SECRET_KEYS);
const deps = { client, pool, databaseUrl, natsUrl, logger, secrets, brand: BRAND, allowLoopback: true };
startWebhooks({ ...deps, ...more });
process.stdout.write("ready\n");
