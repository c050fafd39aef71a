import type { EventStoreDBClient } from "@eventstore/db-client";
import type pg from "pg";
import { createSecretBox } from "../shared/auth/secret-box.ts";
import type { Config } from "../shared/runtime/config.ts";
import type { Logger } from "../shared/runtime/logger.ts";
import { startProjectors } from "./engine/projectors.ts";
import { readModels } from "./read-models/all.ts";
import { startRelay } from "./relay/relay.ts";
import type { Role } from "./roles/role.ts";
import type { Metrics } from "./status/metrics.ts";
import { startWebhooks } from "./webhooks/webhooks.ts";

/** Settings of the roles. */
type RoleConfig = Config<
  | "ROLES"
  | "DATABASE_URL"
  | "NATS_URL"
  | "HEADER_BRAND"
  | "WEBHOOK_SECRET_KEYS"
  | "WEBHOOK_RETRY_SCHEDULE"
  | "WEBHOOK_CONNECT_TIMEOUT_MS"
  | "WEBHOOK_TIMEOUT_MS"
  | "WEBHOOK_ALLOW_LOOPBACK"
>;

/** Dependencies of all roles. */
interface RoleDeps {
  client: EventStoreDBClient;
  pool: pg.Pool;
  metrics: Metrics;
  logger: Logger;
}

/** Starts the configured roles, in the order of ROLES. */
export function startRoles(config: RoleConfig, { client, pool, metrics, logger }: RoleDeps): Role[] {
  const deps = { client, pool, databaseUrl: config.DATABASE_URL, logger };
  const starters = {
    projectors: () =>
      startProjectors({
        ...deps,
        models: readModels,
        onBatch: (_, seconds) => metrics.batch.observe(seconds),
      }),
    relay: () => startRelay({ ...deps, natsUrl: config.NATS_URL }),
    webhooks: () =>
      startWebhooks({
        ...deps,
        natsUrl: config.NATS_URL,
        secrets: createSecretBox(config.WEBHOOK_SECRET_KEYS),
        brand: config.HEADER_BRAND,
        retrySchedule: config.WEBHOOK_RETRY_SCHEDULE,
        connectTimeoutMs: config.WEBHOOK_CONNECT_TIMEOUT_MS,
        timeoutMs: config.WEBHOOK_TIMEOUT_MS,
        allowLoopback: config.WEBHOOK_ALLOW_LOOPBACK,
        onAttempt: (outcome) => metrics.attempts.inc({ outcome }),
      }),
  };
  return config.ROLES.map((name) => starters[name]());
}
