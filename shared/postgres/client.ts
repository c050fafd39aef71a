import pg from "pg";
import { ConfigError } from "../runtime/config.ts";
import { listServerUrls, parseConnectionString, type ServerKind } from "./connection-string.ts";
import { findServer, requireServerKind, type ServerAddress } from "./find-server.ts";

export interface DatabaseServers {
  url: string;
  servers: readonly ServerAddress[];
  serverKind: ServerKind;
  /** User, password, database and TLS settings, which are the same for all servers. */
  login: pg.ClientConfig;
}

const CONNECT_TIMEOUT_MS = 5_000;

/**
 * Parses a connection string, and reads the certificate files that it names.
 *
 * @throws {ConfigError} if a file cannot be read
 */
export function resolveServers(url: string): DatabaseServers {
  const connectionString = parseConnectionString(url);
  const clients = listServerUrls(connectionString).map(createUnconnectedClient);
  const servers = clients.map(({ host, port }) => ({ host, port }));
  const [{ user, password, database, ssl }] = clients as [pg.Client];
  const sslnegotiation = connectionString.options.get("sslnegotiation") === "direct" ? "direct" : "postgres";
  return {
    url,
    servers,
    serverKind: connectionString.serverKind,
    login: { user, password, database, ssl, sslnegotiation },
  };
}

/** Parses the URL of one server and reads its certificate files, by creating a client of pg. */
function createUnconnectedClient(serverUrl: string): pg.Client {
  try {
    return new pg.Client({ connectionString: serverUrl });
  } catch (error) {
    const { path, code, message } = error as NodeJS.ErrnoException;
    const reason =
      path === undefined ? `is invalid (${message})` : `names the file ${path}, which cannot be read (${code})`;
    throw new ConfigError(`settings: DATABASE_URL ${reason}`);
  }
}

/** Rereads the certificate files. Returns the former login if a file cannot be read, such as during its renewal. */
function rereadLogin({ url, login }: DatabaseServers): pg.ClientConfig {
  try {
    return resolveServers(url).login;
  } catch {
    return login;
  }
}

/**
 * Creates a client that is not connected yet.
 *
 * @throws {ConfigError} if a certificate file cannot be read
 */
export function createClient(url: string, config: pg.ClientConfig): DatabaseClient {
  return new DatabaseClient({ ...config, ...resolveServers(url) });
}

/**
 * Client that chooses one of several servers when it connects. pg itself supports only one server. The class can replace
 * the client in a pool of pg.
 */
export class DatabaseClient extends pg.Client {
  readonly #config: pg.ClientConfig & DatabaseServers;

  /** @param config settings. The certificate files are read again, because they may have been renewed meanwhile */
  constructor(config: pg.ClientConfig & DatabaseServers) {
    const login = rereadLogin(config);
    super({ ...config, ...login, ...config.servers[0] });
    this.#config = { ...config, login };
    // A failure also rejects the pending call or the next one. Without a listener, a failure would end the process, for
    // example before a pool has added its own listener.
    this.on("error", () => undefined);
  }

  /**
   * @throws {NoSuitableServerError} if none of several servers is suitable
   * @throws {UnsuitableServerError} if the only server is unsuitable
   */
  override connect(): Promise<pg.Client>;
  override connect(callback: (error: Error) => void): void;
  override connect(callback?: (error: Error) => void): Promise<pg.Client> | undefined {
    const connectPromise = this.#connectToSuitableServer();
    if (!callback) return connectPromise;
    const report = callback as (error?: Error) => void;
    connectPromise.then(
      () => process.nextTick(report),
      (error: Error) => process.nextTick(report, error),
    );
    return undefined;
  }

  /**
   * Checks that the server is still of the required kind, and that the connection works.
   *
   * @throws {UnsuitableServerError} if the server is of another kind, for example after a failover
   */
  requireServerKind(): Promise<void> {
    return requireServerKind(this, this.#config.serverKind);
  }

  async #connectToSuitableServer(): Promise<pg.Client> {
    const { servers, serverKind, connectionTimeoutMillis: timeoutMs = CONNECT_TIMEOUT_MS } = this.#config;
    if (servers.length > 1) {
      const server = await findServer({ ...this.#config, timeoutMs });
      this.host = server.host;
      this.port = server.port;
    }
    // A pool closes the socket at its time limit. A closed socket would never report the end of the connection.
    if (this.connection.stream.destroyed) throw new Error("timeout expired");
    try {
      await this.#openConnection();
      // Between the search and this check, the server can have changed.
      if (serverKind !== "any") await this.requireServerKind();
    } catch (error) {
      // A connection that cannot be closed is already broken. The original error is thrown.
      void this.end().catch(() => undefined);
      throw error;
    }
    return this;
  }

  /**
   * Opens the connection. Unlike `connect` of pg, also fails if the client is closed while it connects, or if the
   * server ends the session at once.
   */
  #openConnection(): Promise<void> {
    return new Promise((resolve, reject) => {
      const reportEnd = () => reject(new Error("Connection terminated"));
      this.once("end", reportEnd).once("error", reject);
      super.connect().then(() => {
        this.off("end", reportEnd).off("error", reject);
        resolve();
      }, reject);
    });
  }
}
