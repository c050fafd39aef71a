type NatsLogin = { user: string; password: string } | { token: string };

export interface NatsServer {
  host: string;
  /** True for `tls://`. A server at `nats://` may require TLS, too. */
  requiresTls: boolean;
  /** Undefined if neither this server's URL nor another URL of the list has credentials. */
  login: NatsLogin | undefined;
}

/** Matches the URL of one server. Credentials end at the last `@`. Only `%` and `:` in them must be percent-encoded. */
const SERVER_FORMAT = /^(nats|tls):\/\/(?:(.+)@)?((?:[\w.-]+|\[[\da-fA-F:.]+\])(?::\d{1,5})?)\/?$/;

/**
 * Parses NATS_URL: the URLs of one or more servers, separated by commas. The first credentials in the list apply to all
 * servers without credentials.
 *
 * @returns undefined if a URL is malformed
 */
export function parseNatsUrl(text: string): NatsServer[] | undefined {
  // A password may contain a comma.
  const urls = text.split(/\s*,\s*(?=\w+:\/\/)/);
  try {
    const servers = urls.map(parseServer);
    const sharedLogin = servers.find(({ login }) => login)?.login;
    return servers.map((server) => ({ ...server, login: server.login ?? sharedLogin }));
  } catch (error) {
    if (error instanceof URIError) return undefined;
    throw error;
  }
}

/** @throws {URIError} */
function parseServer(url: string): NatsServer {
  const [, scheme, credentials, host] = SERVER_FORMAT.exec(url) ?? [];
  if (host === undefined) throw new URIError("malformed URL");
  return {
    host,
    requiresTls: scheme === "tls",
    login: credentials === undefined ? undefined : parseLogin(credentials),
  };
}

/** @throws {URIError} */
function parseLogin(credentials: string): NatsLogin {
  const [, user, password] = /^([^:]*):(.*)$/s.exec(credentials) ?? [];
  if (user === undefined || password === undefined) return { token: decodeURIComponent(credentials) };
  if (user === "") throw new URIError("missing user");
  return { user: decodeURIComponent(user), password: decodeURIComponent(password) };
}
