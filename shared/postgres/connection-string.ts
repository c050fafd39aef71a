/** Kinds of servers that a connection can require, as in libpq's option `target_session_attrs`. */
const serverKinds = ["any", "read-write", "read-only", "primary", "standby", "prefer-standby"] as const;
export type ServerKind = (typeof serverKinds)[number];

interface ConnectionString {
  scheme: string;
  /** Percent-encoded user and password with a final `@`; empty if the string has no credentials. */
  credentials: string;
  hosts: string[];
  /** Percent-encoded path: `/` and the name of the database. */
  path: string;
  options: URLSearchParams;
  serverKind: ServerKind;
}

/** Thrown for an invalid connection string. The message names the problem, but contains no part of the credentials. */
export class ConnectionStringError extends Error {
  override readonly name = "ConnectionStringError";
}

/**
 * Permits an `@` only before the hosts. Otherwise, part of an unencoded password could look like a host or an option,
 * and appear in error messages.
 */
const CONNECTION_STRING_FORMAT = /^(postgres(?:ql)?:\/\/)([^/?#]*@)?([^@/?#]*)(\/[^@?#]*)?(?:\?([^@#]*))?$/;

/** A host name, a percent-encoded socket folder, or an address, with an optional port. */
const HOST_FORMAT = /^([\w.%-]+|\[[\da-f:.]+\])(:\d{1,5})?$/i;

/** Supported options. All others are refused: pg ignores some, and some would override the service's settings. */
const OPTIONS = new Set([
  "host",
  "port",
  "user",
  "password",
  "target_session_attrs",
  "ssl",
  "sslmode",
  "sslrootcert",
  "sslcert",
  "sslkey",
  "sslnegotiation",
]);

/**
 * Maps the values of `sslmode` to the mode to use. pg also treats `require` and `verify-ca` as `verify-full`, but
 * prints a long warning. `no-verify` exists only in pg.
 */
const SSL_MODES = new Map([
  ["disable", "disable"],
  ["no-verify", "no-verify"],
  ["require", "verify-full"],
  ["verify-ca", "verify-full"],
  ["verify-full", "verify-full"],
]);

/**
 * Parses a connection string of Postgres. Unlike a URL, it can contain several hosts, separated by commas.
 *
 * @throws {ConnectionStringError}
 */
export function parseConnectionString(text: string): ConnectionString {
  const [, scheme, credentials = "", hostList = "", path = "/", query] = CONNECTION_STRING_FORMAT.exec(text) ?? [];
  if (scheme === undefined)
    throw new ConnectionStringError(
      "must be a URL like postgres://user:password@host/clinic or postgres://user:password@a:5432,b:5432/clinic, with special characters percent-encoded",
    );
  const { target_session_attrs: serverKind = "any", ...options } = parseOptions(query);
  if (!isServerKind(serverKind))
    throw new ConnectionStringError(`must have one of these values of target_session_attrs: ${serverKinds.join(", ")}`);
  const hosts = hostList.split(",");
  const hostOptions = [options.host, options.port].filter((value) => value !== undefined);
  if (hostOptions.some((value) => hosts.length > 1 || value.includes(",")))
    throw new ConnectionStringError("must name several hosts before the path, as in postgres://a:5432,b:5432/clinic");
  const connectionString = { scheme, credentials, hosts, path, options: new URLSearchParams(options), serverKind };
  const isHostMissing = hosts.length === 1 && hostList === "" && credentials === "";
  if (!isHostMissing && !hosts.every((host) => HOST_FORMAT.test(host)))
    throw new ConnectionStringError("must name each host as host, host:port or [IPv6 address]:port");
  if (!listServerUrls(connectionString).every((url) => URL.canParse(url)) || !isDecodable(credentials + path))
    throw new ConnectionStringError("must have valid ports and valid percent-encoding");
  return connectionString;
}

export function formatConnectionString(connectionString: ConnectionString): string {
  const options = new URLSearchParams(connectionString.options);
  if (connectionString.serverKind !== "any") options.set("target_session_attrs", connectionString.serverKind);
  return formatUrl(connectionString, connectionString.hosts.join(","), options);
}

/** Returns one URL for each server, because pg supports only one host. */
export function listServerUrls(connectionString: ConnectionString): string[] {
  return connectionString.hosts.map((host) => formatUrl(connectionString, host, connectionString.options));
}

export function getDatabaseName({ path }: ConnectionString): string {
  return decodeURIComponent(path.slice(1));
}

function formatUrl({ scheme, credentials, path }: ConnectionString, host: string, options: URLSearchParams): string {
  const query = options.size === 0 ? "" : `?${options}`;
  return `${scheme}${credentials}${host}${path}${query}`;
}

function parseOptions(query: string | undefined): Record<string, string> {
  const options = Object.fromEntries(new URLSearchParams(query));
  for (const name of Object.keys(options)) {
    if (!OPTIONS.has(name))
      throw new ConnectionStringError(`must not contain the option ${name}, which is not supported`);
  }
  const { sslmode } = options;
  if (sslmode === undefined) return options;
  const usedMode = SSL_MODES.get(sslmode);
  if (usedMode === undefined)
    throw new ConnectionStringError(`must have one of these values of sslmode: ${[...SSL_MODES.keys()].join(", ")}`);
  return { ...options, sslmode: usedMode };
}

function isServerKind(text: string): text is ServerKind {
  return serverKinds.some((kind) => kind === text);
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}
