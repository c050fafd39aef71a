import { type LocalRoot, openLocalRoot } from "../setup/local-root.ts";
import { type PartName, type Ports, requireFreePort } from "../setup/ports.ts";
import type { Progress } from "../setup/progress.ts";
import type { LocalSecrets } from "../setup/secrets.ts";
import { SetupError } from "../setup/setup-error.ts";
import { externalPart, type Part, type PartContext } from "../supervisor/part.ts";
import { type DatabaseUrls, ensureGivenDatabase, ensureOwnDatabase } from "./database-roles.ts";
import { prepareEventstore } from "./eventstore.ts";
import { type GivenServers, requireUrls } from "./given-servers.ts";
import { prepareNats } from "./nats.ts";
import { preparePostgres, superuserUrl } from "./postgres.ts";

export type ServerName = "eventstore" | "postgres" | "nats";

export interface ServerOptions {
  /** The stack's folder: data, logs, secrets. */
  root: string;
  ports: Ports;
  given: GivenServers;
  /** Parts that are started afterwards; their ports are checked before anything starts. */
  portsNeeded?: readonly PartName[];
  progress: Progress;
  /** Whether new data folders are synced to disk while they are made; off only for what a test throws away. */
  syncNewData: boolean;
  /** Whether a part that dies or hangs is started again; without it, it stays down. */
  restart?: boolean;
  /** Aborted to end a start under way. */
  signal?: AbortSignal;
}

/** The three servers that the services stand on, running. */
export interface Servers {
  root: LocalRoot;
  context: PartContext;
  eventstoreUrl: string;
  natsUrl: string;
  /** URL of a user that may create databases, on an embedded server its superuser. */
  adminDatabaseUrl: string;
  databaseUrls: DatabaseUrls;
  parts: Record<ServerName, Part>;
  /** Stops those that are ours and lets the folder go. */
  stop(): Promise<void>;
}

/**
 * Starts event log, Postgres (with database and roles) and NATS side by side, except those that are given.
 * When one fails, those that were started are stopped again.
 *
 * @throws {SetupError} one readable line
 */
export async function startServers(options: ServerOptions): Promise<Servers> {
  const { progress, given, ports, restart, signal } = options;
  requireUrls(given);
  const root = await openLocalRoot(options.root, progress.line);
  const { paths, pids, secrets } = root;
  const context = { paths, pids, log: progress.line, restart, signal };
  const started: Part[] = [];
  const stop = async () => {
    await Promise.all(started.map((part) => part.stop()));
    root.release();
  };
  try {
    for (const name of portsToCheck(options)) await requireFreePort(name, ports[name]);
    const parts = await startParts(options, context, secrets, started);
    const adminDatabaseUrl = given.DATABASE_URL || superuserUrl(ports.postgres, secrets.postgres.superuser);
    const databaseUrls = given.DATABASE_URL
      ? await ensureGivenDatabase(given.DATABASE_URL, secrets.postgres)
      : await ensureOwnDatabase(adminDatabaseUrl, "clinic", secrets.postgres);
    const eventstoreUrl = given.EVENTSTORE_URL || `esdb://127.0.0.1:${ports.eventstore}?tls=false`;
    const natsUrl = given.NATS_URL || `nats://127.0.0.1:${ports.nats}`;
    return { root, context, eventstoreUrl, natsUrl, adminDatabaseUrl, databaseUrls, parts, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Starts the embedded servers side by side and adds each to `started` before its process runs. */
async function startParts(
  { progress, given, ports, syncNewData }: ServerOptions,
  context: PartContext,
  secrets: LocalSecrets,
  started: Part[],
): Promise<Servers["parts"]> {
  const start = (name: ServerName, prepare: () => Promise<Part> | Part): Promise<Part> =>
    progress.step(`${name} 127.0.0.1:${ports[name]}`, async () => {
      const part = await prepare();
      started.push(part);
      await part.start();
      return part;
    });
  const postgresOptions = { port: ports.postgres, password: secrets.postgres.superuser, syncNewData };
  const [eventstore, postgres, nats] = await allOrError([
    given.EVENTSTORE_URL
      ? externalPart("eventstore")
      : start("eventstore", () => prepareEventstore(context, ports.eventstore)),
    given.DATABASE_URL
      ? externalPart("postgres")
      : start("postgres", () => preparePostgres(context, postgresOptions)),
    given.NATS_URL ? externalPart("nats") : start("nats", () => prepareNats(context, ports.nats)),
  ]);
  return { eventstore, postgres, nats };
}

function portsToCheck({ given, portsNeeded = [] }: ServerOptions): PartName[] {
  const ours: PartName[] = [...portsNeeded];
  if (!given.EVENTSTORE_URL) ours.push("eventstore");
  if (!given.DATABASE_URL) ours.push("postgres");
  if (!given.NATS_URL) ours.push("nats");
  return ours;
}

/** Like Promise.all, but leaves nothing running behind an error; of several errors, the first in the list. */
export async function allOrError<Values extends readonly unknown[]>(
  work: Values,
): Promise<{ -readonly [Key in keyof Values]: Awaited<Values[Key]> }> {
  const results = await Promise.allSettled(work);
  const failures = results.filter((result) => result.status === "rejected");
  const readable = failures.find(({ reason }) => reason instanceof SetupError) ?? failures[0];
  if (readable) throw readable.reason;
  return results.map((result) => result.status === "fulfilled" && result.value) as never;
}
