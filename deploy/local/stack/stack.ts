import { z } from "zod";
import { readCheckpoint } from "../../../projection/checkpoints/checkpoint.ts";
import { computeFingerprint } from "../../../projection/engine/ddl.ts";
import { prepareDatabase } from "../../../projection/prepare-database.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { createLogger } from "../../../shared/runtime/logger.ts";
import { awaitAll, type ServerName, type ServerOptions, type Servers, startServers } from "../servers/servers.ts";
import { buildNodeCommand, PROJECT_FOLDER } from "../setup/project.ts";
import { SetupError } from "../setup/setup-error.ts";
import { type Component, type ComponentContext, createComponent } from "../supervisor/component.ts";
import {
  buildOperationsUrl,
  buildServiceEnvironments,
  buildServiceUrls,
  type Environment,
  type Environments,
  mapServices,
  SERVICE_NAMES,
  type ServiceName,
  type ServiceUrls,
} from "./environment.ts";

const STATEMENT_TIMEOUT_MS = 30_000;

export interface StackOptions extends Omit<ServerOptions, "otherComponents"> {
  env: NodeJS.ProcessEnv;
  /** Settings for single services that override all other settings. */
  serviceEnv?: Partial<Record<ServiceName, Environment>>;
}

/** Running stack of three servers, four services and the gateway. */
export interface LocalStack {
  servers: Servers;
  urls: ServiceUrls;
  operationsUrl: string;
  env: Environments;
  components: Record<ServerName | ServiceName, Component>;
  /** Stops the services, then the servers. */
  stop(): Promise<void>;
}

/**
 * Starts the whole stack in this order:
 *
 *     1. the servers
 *     2. the gateway and the projection service
 *     3. the command, query API and audit services
 *
 * Before step 2, the migrations are applied. If a component fails, all other components are stopped.
 *
 * @throws {SetupError} one line, followed by the last lines of output if a component failed
 */
export async function startStack(options: StackOptions): Promise<LocalStack> {
  const { ports, progress, env: inheritedEnv, serviceEnv: overrides } = options;
  const servers = await startServers({ ...options, otherComponents: SERVICE_NAMES });
  const { secrets } = servers.root;
  const env = buildServiceEnvironments({ ports, secrets, servers, inheritedEnv, overrides });
  const services = mapServices((name) => createServiceComponent(name, env[name], servers.context));
  const start = (name: ServiceName) =>
    progress.runStep(`${services[name].name} 127.0.0.1:${ports[name]}`, () => services[name].start());
  const stop = async () => {
    const { projection, ...otherServices } = services;
    await Promise.all(Object.values(otherServices).map((service) => service.stop()));
    await projection.stop();
    await servers.stop();
  };
  try {
    await prepareStackDatabase(servers.databaseUrls.projection, servers.components.postgres.isExternal);
    await awaitAll([start("gateway"), start("projection")]);
    await awaitAll([start("command"), start("queryApi"), start("audit")]);
  } catch (error) {
    await stop();
    throw error;
  }
  const components = { ...servers.components, ...services };
  return { servers, urls: buildServiceUrls(ports), operationsUrl: buildOperationsUrl(ports), env, components, stop };
}

/**
 * Applies the migrations, and creates the read models if there are none.
 *
 * @throws {SetupError} if a migration fails, or the embedded Postgres contains read models of another version
 */
export async function prepareStackDatabase(databaseUrl: string, isExternal: boolean): Promise<void> {
  const logger = createLogger("start", "silent"); // errors are thrown
  const pool = createPool({
    url: databaseUrl,
    applicationName: "start",
    size: 2,
    statementTimeoutMs: STATEMENT_TIMEOUT_MS,
    logger,
  });
  try {
    await prepareDatabase(databaseUrl, pool, logger).catch((error) => {
      throw new SetupError(`The database cannot be migrated: ${error.message || error.code}`);
    });
    if (isExternal) return; // the projection service reports read models that it cannot use
    const { fingerprint } = await readCheckpoint(pool, READ_MODEL_SCHEMA);
    if (fingerprint !== computeFingerprint(readModels))
      throw new SetupError(
        "The database contains read models of another version. Run npm run reset to delete all local data, then start again.",
      );
  } finally {
    await pool.end();
  }
}

const SERVICES = {
  projection: { name: "projection", entry: "projection/main.ts" },
  command: { name: "command", entry: "command/main.ts" },
  queryApi: { name: "query-api", entry: "query-api/main.ts" },
  audit: { name: "audit", entry: "command/audit/main.ts" },
  gateway: { name: "gateway", entry: "deploy/local/gateway/main.ts" },
} as const;

/** Longer than the service's own readiness checks take. */
const PROBE_TIMEOUT_MS = 15_000;

/** If a service is not ready after this time, the start reports the reason. */
const REPORT_DELAY_MS = 5_000;

/** Prepares the process of a service, but does not start it. `env` must contain PORT. */
export function createServiceComponent(service: ServiceName, env: Environment, context: ComponentContext): Component {
  const { name, entry } = SERVICES[service];
  const prepareProcess = () => ({
    ...buildNodeCommand(entry),
    env,
    cwd: PROJECT_FOLDER,
    isReady: createReadinessProbe(name, `http://127.0.0.1:${env.PORT}/health/ready`, context.log),
    stopTimeoutMs: 12_000,
  });
  return createComponent(name, prepareProcess, context);
}

/** Returns a function that checks the service. If the service is not ready, the function logs the reason. */
function createReadinessProbe(name: string, url: string, log: (line: string) => void): () => Promise<boolean> {
  const startedAt = Date.now();
  let reportedReason = "";
  return async () => {
    const { isReady, reason } = await fetchReadiness(url);
    if (reason !== "" && reason !== reportedReason && Date.now() - startedAt > REPORT_DELAY_MS) {
      reportedReason = reason;
      log(`  … ${name} is not ready: ${reason}`);
    }
    return isReady;
  };
}

/** Reason why each part of the service is not ready; null for a part that is ready. */
const readinessSchema = z.object({ parts: z.record(z.string(), z.string().nullable()) });

/** @returns an empty reason if the service is ready or does not respond */
async function fetchReadiness(url: string): Promise<{ isReady: boolean; reason: string }> {
  try {
    const response = await fetch(url, { signal: AbortSignal.timeout(PROBE_TIMEOUT_MS) });
    const body = await response.json();
    if (response.ok) return { isReady: true, reason: "" };
    const reasons = Object.entries(readinessSchema.parse(body).parts).flatMap(([part, problem]) =>
      // The text after the semicolon states the lag. It is omitted, because it changes with each response.
      problem === null ? [] : [`${part}: ${problem.split(";")[0]}`],
    );
    return { isReady: false, reason: reasons.join(", ") };
  } catch {
    return { isReady: false, reason: "" }; // the service does not listen yet, or is stopping
  }
}
