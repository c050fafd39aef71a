import { type LocalRoot, openLocalRoot } from "../setup/local-root.ts";
import { type ComponentName, type Ports, requireFreePort } from "../setup/ports.ts";
import type { Progress } from "../setup/progress.ts";
import type { LocalSecrets } from "../setup/secrets.ts";
import { SetupError } from "../setup/setup-error.ts";
import { type Component, type ComponentContext, createExternalComponent } from "../supervisor/component.ts";
import { type DatabaseUrls, ensureEmbeddedDatabase, ensureExternalDatabase } from "./database-roles.ts";
import { prepareEventstore } from "./eventstore.ts";
import { type ExternalServers, requireValidUrls } from "./external-servers.ts";
import { prepareNats } from "./nats.ts";
import { buildSuperuserUrl, preparePostgres } from "./postgres.ts";

export type ServerName = "eventstore" | "postgres" | "nats";

export interface ServerOptions {
  /** The stack's folder: data, logs, secrets. */
  root: string;
  ports: Ports;
  external: ExternalServers;
  /** Components that start later. Their ports are checked before anything starts. */
  otherComponents?: readonly ComponentName[];
  progress: Progress;
  /** If true, new data folders are synced to disk. Tests do without. */
  syncNewData: boolean;
  /** If true, a component that dies or hangs is restarted. */
  restart?: boolean;
  /** Aborted to stop, also while the servers start. */
  signal?: AbortSignal;
}

/** The three running servers that the services need. */
export interface Servers {
  root: LocalRoot;
  context: ComponentContext;
  eventstoreUrl: string;
  natsUrl: string;
  /** URL of a user that can create databases: the superuser of an embedded server. */
  adminDatabaseUrl: string;
  databaseUrls: DatabaseUrls;
  components: Record<ServerName, Component>;
  /** Stops the embedded servers and releases the folder. */
  stop(): Promise<void>;
}

/**
 * Starts the event log, Postgres with its database and roles, and NATS in parallel, except external servers. If one
 * fails, the others are stopped.
 *
 * @throws {SetupError} one line
 */
export async function startServers(options: ServerOptions): Promise<Servers> {
  const { progress, external, ports, restart, signal } = options;
  requireValidUrls(external);
  const root = await openLocalRoot(options.root, progress.log);
  const { paths, pids, secrets } = root;
  const context = { paths, pids, log: progress.log, restart, signal };
  const started: Component[] = [];
  const stop = async () => {
    await Promise.all(started.map((component) => component.stop()));
    root.release();
  };
  try {
    for (const name of listPortsToCheck(options)) await requireFreePort(name, ports[name]);
    const components = await startComponents(options, context, secrets, started);
    const adminDatabaseUrl =
      external.DATABASE_URL || buildSuperuserUrl(ports.postgres, secrets.postgres.superuser);
    const databaseUrls = external.DATABASE_URL
      ? await ensureExternalDatabase(external.DATABASE_URL, secrets.postgres)
      : await ensureEmbeddedDatabase(adminDatabaseUrl, "clinic", secrets.postgres);
    const eventstoreUrl = external.EVENTSTORE_URL || `esdb://127.0.0.1:${ports.eventstore}?tls=false`;
    const natsUrl = external.NATS_URL || `nats://127.0.0.1:${ports.nats}`;
    return { root, context, eventstoreUrl, natsUrl, adminDatabaseUrl, databaseUrls, components, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Starts the embedded servers side by side and adds each to `started` before its process runs. */
async function startComponents(
  { progress, external, ports, syncNewData }: ServerOptions,
  context: ComponentContext,
  secrets: LocalSecrets,
  started: Component[],
): Promise<Servers["components"]> {
  const start = (name: ServerName, prepare: () => Promise<Component> | Component): Promise<Component> =>
    progress.step(`${name} 127.0.0.1:${ports[name]}`, async () => {
      const component = await prepare();
      started.push(component);
      await component.start();
      return component;
    });
  const postgresOptions = { port: ports.postgres, password: secrets.postgres.superuser, syncNewData };
  const [eventstore, postgres, nats] = await awaitAll([
    external.EVENTSTORE_URL
      ? createExternalComponent("eventstore")
      : start("eventstore", () => prepareEventstore(context, ports.eventstore)),
    external.DATABASE_URL
      ? createExternalComponent("postgres")
      : start("postgres", () => preparePostgres(context, postgresOptions)),
    external.NATS_URL
      ? createExternalComponent("nats")
      : start("nats", () => prepareNats(context, ports.nats)),
  ]);
  return { eventstore, postgres, nats };
}

function listPortsToCheck({ external, otherComponents = [] }: ServerOptions): ComponentName[] {
  const ours: ComponentName[] = [...otherComponents];
  if (!external.EVENTSTORE_URL) ours.push("eventstore");
  if (!external.DATABASE_URL) ours.push("postgres");
  if (!external.NATS_URL) ours.push("nats");
  return ours;
}

/** Like Promise.all, but waits for all promises to settle before it throws. Of several errors, throws the first. */
export async function awaitAll<Values extends readonly unknown[]>(
  work: Values,
): Promise<{ -readonly [Key in keyof Values]: Awaited<Values[Key]> }> {
  const results = await Promise.allSettled(work);
  const failures = results.filter((result) => result.status === "rejected");
  const readable = failures.find(({ reason }) => reason instanceof SetupError) ?? failures[0];
  if (readable) throw readable.reason;
  return results.map((result) => result.status === "fulfilled" && result.value) as never;
}
