import pg from "pg";
import { settlesWithin, withTimeout } from "../runtime/timeout.ts";
import type { ServerKind } from "./connection-string.ts";

export class UnsuitableServerError extends Error {
  override readonly name = "UnsuitableServerError";
}

interface ServerState {
  isStandby: boolean;
  isReadOnly: boolean;
}

/** For each kind of server, returns why a server is not of this kind, or null if it is. */
const MISMATCHES: Record<ServerKind, (state: ServerState) => string | null> = {
  any: () => null,
  "prefer-standby": () => null,
  "read-write": ({ isReadOnly }) => (isReadOnly ? "the server is read-only" : null),
  "read-only": ({ isReadOnly }) => (isReadOnly ? null : "the server accepts writes"),
  primary: ({ isStandby }) => (isStandby ? "the server is a standby" : null),
  standby: ({ isStandby }) => (isStandby ? null : "the server is a primary"),
};

/**
 * Checks with one query that a connected client's server is of the required kind.
 *
 * @throws {UnsuitableServerError} if the server is of another kind
 * @throws the error of the query
 */
export async function requireServerKind(client: pg.Client, kind: ServerKind): Promise<void> {
  const { rows } = await client.query<ServerState>(
    `SELECT pg_is_in_recovery() AS "isStandby", current_setting('transaction_read_only') = 'on' AS "isReadOnly"`,
  );
  const mismatch = rows[0] && MISMATCHES[kind](rows[0]);
  if (mismatch) throw new UnsuitableServerError(mismatch);
}

export interface ServerAddress {
  host: string;
  port: number;
}

interface FindServerOptions {
  servers: readonly ServerAddress[];
  serverKind: ServerKind;
  login: pg.ClientConfig;
  timeoutMs: number;
}

interface ServerFailure {
  server: ServerAddress;
  error: Error;
}

/** Thrown if no server is suitable. The message contains the reason for each server that was asked. */
export class NoSuitableServerError extends AggregateError {
  override readonly name = "NoSuitableServerError";

  constructor(failures: readonly ServerFailure[]) {
    const reasons = failures.map(({ server, error }) => `${server.host}:${server.port}: ${describeFailure(error)}`);
    super(
      failures.map(({ error }) => error),
      `No server of DATABASE_URL is suitable (${reasons.join("; ")}).`,
    );
  }
}

/** If a server has not answered after this time, the next server is asked too. */
const NEXT_SERVER_DELAY_MS = 300;

/**
 * Finds the first suitable server. Asks the servers in order, and goes on to the next server if a server is
 * unreachable, unsuitable or slow. Each server is asked on its own connection, because a client of pg cannot connect to
 * another server after a failure.
 *
 * @throws {NoSuitableServerError}
 */
export async function findServer(options: FindServerOptions): Promise<ServerAddress> {
  if (options.serverKind !== "prefer-standby") return findFirstServer(options);
  try {
    return await findFirstServer({ ...options, serverKind: "standby", timeoutMs: options.timeoutMs / 2 });
  } catch {
    return findFirstServer({ ...options, serverKind: "any", timeoutMs: options.timeoutMs / 2 });
  }
}

interface Search {
  failures: ServerFailure[];
  silentServers: Set<ServerAddress>;
  isOver: boolean;
}

async function findFirstServer(options: FindServerOptions): Promise<ServerAddress> {
  const search: Search = { failures: [], silentServers: new Set(), isOver: false };
  try {
    return await withTimeout(options.timeoutMs, askFrom(0, options, search));
  } catch {
    const timeouts = Array.from(search.silentServers, (server) => ({ server, error: new Error("timeout expired") }));
    throw new NoSuitableServerError([...search.failures, ...timeouts]);
  } finally {
    search.isOver = true;
  }
}

async function askFrom(index: number, options: FindServerOptions, search: Search): Promise<ServerAddress> {
  const server = options.servers[index];
  if (!server || search.isOver) throw new Error("There is no further server.");
  search.silentServers.add(server);
  const answerPromise = askServer(server, options).then(() => server);
  answerPromise.catch((error: Error) => {
    search.silentServers.delete(server);
    search.failures.push({ server, error });
  });
  const isSuitable = await settlesWithin(answerPromise, NEXT_SERVER_DELAY_MS).catch(() => false);
  return isSuitable ? server : Promise.any([answerPromise, askFrom(index + 1, options, search)]);
}

async function askServer(server: ServerAddress, { login, serverKind, timeoutMs }: FindServerOptions): Promise<void> {
  const client = new pg.Client({ ...login, ...server, connectionTimeoutMillis: timeoutMs, query_timeout: timeoutMs });
  // A failure is reported by the pending call. Without a listener, the error would end the process.
  client.on("error", () => undefined);
  try {
    await client.connect();
    if (serverKind !== "any") await requireServerKind(client, serverKind);
  } finally {
    // A connection that cannot be closed is already broken.
    void client.end().catch(() => undefined);
  }
}

/** Returns the message of an error, or its code if the message is empty because all addresses of a host failed. */
function describeFailure(error: Error): string {
  return error.message || String((error as NodeJS.ErrnoException).code);
}
