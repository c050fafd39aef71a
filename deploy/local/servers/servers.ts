import { once } from "node:events";
import fs from "node:fs";
import net from "node:net";
import { connectNats } from "../../../projection/nats/nats-session.ts";
import { NATS_SETTING_NAMES, validateNatsSettings } from "../../../projection/nats/nats-settings.ts";
import { connectEventStore, requireEventStore } from "../../../shared/eventstore/connect.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { type LocalRoot, type LocalSecrets, openLocalRoot } from "../setup/local-root.ts";
import { type ComponentName, type Ports, requireFreePort } from "../setup/ports.ts";
import type { Progress } from "../setup/progress.ts";
import { buildNodeCommand, PROJECT_FOLDER } from "../setup/project.ts";
import { SetupError } from "../setup/setup-error.ts";
import {
  type Component,
  type ComponentContext,
  createComponent,
  createExternalComponent,
} from "../supervisor/component.ts";
import { type DatabaseUrls, ensureEmbeddedDatabase, ensureExternalDatabase } from "./database-roles.ts";
import { prepareNats } from "./nats.ts";
import { buildSuperuserUrl, preparePostgres } from "./postgres.ts";

/** Setting of each server. If the setting has a URL, this external server replaces the embedded server. */
const EXTERNAL_URL_NAMES = { eventstore: "EVENTSTORE_URL", postgres: "DATABASE_URL", nats: "NATS_URL" } as const;

export type ServerName = keyof typeof EXTERNAL_URL_NAMES;

export type ExternalServers = { [Setting in (typeof EXTERNAL_URL_NAMES)[ServerName]]?: string | undefined };

const CONNECT_TIMEOUT_MS = 15_000;

export interface ServerOptions {
  /** Folder with the stack's data, logs and secrets. */
  root: string;
  ports: Ports;
  externalUrls: ExternalServers;
  /** Components that the caller starts later. Their ports are also checked before the servers start. */
  otherComponents?: readonly ComponentName[];
  progress: Progress;
  /** If true, Postgres creates a data folder for tests: nothing is synced to disk, and autovacuum is off. */
  isPostgresEphemeral: boolean;
  /** If true, a component whose process ends by itself is started again. */
  shouldRestart?: boolean;
  /** When aborted, the servers stop, even while they start. */
  signal?: AbortSignal;
}

export interface Servers {
  root: LocalRoot;
  context: ComponentContext;
  eventstoreUrl: string;
  natsUrl: string;
  /** The value of DATABASE_URL, or the superuser's URL of the embedded Postgres. */
  adminDatabaseUrl: string;
  databaseUrls: DatabaseUrls;
  components: Record<ServerName, Component>;
  /** Stops the servers, and releases the lock of the stack's folder. */
  stop(): Promise<void>;
}

/**
 * Starts the embedded servers in parallel: event log, Postgres with its database and roles, and NATS. A server is not
 * started if an external server replaces it. If a server fails, the other servers are stopped.
 *
 * @throws {SetupError} one line for the user
 */
export async function startServers(options: ServerOptions): Promise<Servers> {
  const { progress, externalUrls, ports, shouldRestart, signal } = options;
  requireValidUrls(externalUrls);
  const root = await openLocalRoot(options.root);
  const { paths, secrets } = root;
  const context = { paths, log: progress.log, shouldRestart, signal };
  const startedComponents: Component[] = [];
  const stop = async () => {
    await Promise.all(startedComponents.map((component) => component.stop()));
    root.release();
  };
  try {
    for (const name of listPortsToCheck(options)) await requireFreePort(name, ports[name]);
    const components = await startComponents(options, context, secrets, startedComponents);
    const adminDatabaseUrl = externalUrls.DATABASE_URL || buildSuperuserUrl(ports.postgres, secrets.postgres.superuser);
    const databaseUrls = externalUrls.DATABASE_URL
      ? await ensureExternalDatabase(externalUrls.DATABASE_URL, secrets.postgres)
      : await ensureEmbeddedDatabase(adminDatabaseUrl, "clinic", secrets.postgres);
    const eventstoreUrl = externalUrls.EVENTSTORE_URL || `esdb://127.0.0.1:${ports.eventstore}?tls=false`;
    const natsUrl = externalUrls.NATS_URL || `nats://127.0.0.1:${ports.nats}`;
    return { root, context, eventstoreUrl, natsUrl, adminDatabaseUrl, databaseUrls, components, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Adds each server to `startedComponents` before its process starts, so that the caller can stop the server. */
async function startComponents(
  { progress, externalUrls, ports, isPostgresEphemeral: isEphemeral }: ServerOptions,
  context: ComponentContext,
  secrets: LocalSecrets,
  startedComponents: Component[],
): Promise<Servers["components"]> {
  const postgresOptions = { port: ports.postgres, password: secrets.postgres.superuser, isEphemeral };
  const prepareFunctions = {
    eventstore: () => prepareEventstore(context, ports.eventstore),
    postgres: () => preparePostgres(context, postgresOptions),
    nats: () => prepareNats(context, ports.nats),
  };
  const start = (name: ServerName) => {
    if (externalUrls[EXTERNAL_URL_NAMES[name]]) return createExternalComponent(name);
    return progress.runStep(`${name} 127.0.0.1:${ports[name]}`, async () => {
      const component = await prepareFunctions[name]();
      startedComponents.push(component);
      await component.start();
      return component;
    });
  };
  const [eventstore, postgres, nats] = await awaitAll([start("eventstore"), start("postgres"), start("nats")]);
  return { eventstore, postgres, nats };
}

function prepareEventstore(context: ComponentContext, port: number): Component {
  const folder = context.paths.eventstore;
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  const args = ["--dir", folder, "--port", String(port), "--host", "127.0.0.1"];
  const prepareProcess = () => ({
    ...buildNodeCommand("deploy/local/eventstore/main.ts", args),
    env: { PATH: process.env.PATH },
    cwd: PROJECT_FOLDER, // Node looks for the package tsx in this folder
    isReady: () => acceptsConnections(port), // the log listens only after it has opened its data
  });
  return createComponent("eventstore", prepareProcess, context);
}

function acceptsConnections(port: number): Promise<boolean> {
  const socket = net.connect({ port, host: "127.0.0.1" });
  return once(socket, "connect")
    .then(
      () => true,
      () => false,
    )
    .finally(() => socket.destroy());
}

function listPortsToCheck({ externalUrls, otherComponents = [] }: ServerOptions): ComponentName[] {
  const serverNames = Object.keys(EXTERNAL_URL_NAMES) as ServerName[];
  return [...otherComponents, ...serverNames.filter((name) => !externalUrls[EXTERNAL_URL_NAMES[name]])];
}

/**
 * Waits for all promises, like Promise.all, but throws only after all of them have settled. If several promises fail,
 * it throws the first SetupError. If none of the errors is a SetupError, it throws the first error.
 */
export async function awaitAll<Values extends readonly unknown[]>(
  promises: Values,
): Promise<{ -readonly [Key in keyof Values]: Awaited<Values[Key]> }> {
  const settledResults = await Promise.allSettled(promises);
  const failures = settledResults.filter((result) => result.status === "rejected");
  const failure = failures.find(({ reason }) => reason instanceof SetupError) ?? failures[0];
  if (failure) throw failure.reason;
  return settledResults.map((result) => result.status === "fulfilled" && result.value) as never;
}

/**
 * Checks the syntax of the URLs.
 *
 * @throws {ConfigError} one line that names the invalid setting
 */
function requireValidUrls(externalUrls: ExternalServers): void {
  const names = Object.values(EXTERNAL_URL_NAMES).filter((name) => externalUrls[name]);
  readConfig(names, { ...externalUrls });
}

/**
 * Checks that an external event log and an external NATS server respond. Postgres is checked later, when the database
 * roles are created.
 *
 * @param env environment with the URLs and the other settings of the connections
 * @throws {ConfigError | SetupError} one line that names the setting
 */
export async function requireReachable(env: NodeJS.ProcessEnv): Promise<void> {
  requireValidUrls(env);
  const { EVENTSTORE_URL, NATS_URL } = env;
  try {
    if (EVENTSTORE_URL) {
      const client = connectEventStore(EVENTSTORE_URL, "start");
      await requireEventStore(client, EVENTSTORE_URL).finally(() => client.dispose());
    }
    if (NATS_URL) {
      const nats = validateNatsSettings(readConfig(NATS_SETTING_NAMES, env));
      const connection = await connectNats(nats, "start", CONNECT_TIMEOUT_MS);
      await connection.close();
    }
  } catch (error) {
    throw new SetupError((error as Error).message);
  }
}
