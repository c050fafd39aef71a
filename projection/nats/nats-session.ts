import { readFileSync } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type Authenticator,
  connect,
  credsAuthenticator,
  ErrorCode,
  type NatsConnection,
  NatsError,
  nkeyAuthenticator,
  type TlsOptions,
} from "nats";
import { onAbort } from "../../shared/runtime/abort.ts";
import { type NatsServer, parseNatsUrl } from "../../shared/runtime/nats-url.ts";
import type { NatsSettings } from "./nats-settings.ts";

interface NatsSessionOptions {
  nats: NatsSettings;
  name: string;
  signal: AbortSignal;
}

/** Time limit for the work to end after an abort. */
const FINISH_TIMEOUT_MS = 1_000;

/**
 * Connects to a NATS server and runs work. If the connection is lost, the signal of the work aborts. The session never
 * reconnects, because the server may have lost state that the work depends on. The next session can use another server.
 *
 * @throws {NatsUnavailableError} if no server accepts the connection
 * @throws errors of the work, and an error if the connection was lost
 */
export async function withNats(
  options: NatsSessionOptions,
  run: (connection: NatsConnection, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const connection = await connectNats(options.nats, options.name, undefined, options.signal);
  const sessionController = new AbortController();
  let closeTimer: NodeJS.Timeout | undefined;
  const endSession = () => {
    sessionController.abort();
    // If the work still waits for a server response, closing the connection ends the wait.
    closeTimer ??= setTimeout(() => void connection.close(), FINISH_TIMEOUT_MS);
  };
  const closePromise = connection.closed().then((error) => {
    sessionController.abort();
    return error;
  });
  const removeListener = onAbort(options.signal, endSession);
  try {
    await run(connection, sessionController.signal);
    if (connection.isClosed()) throw (await closePromise) || new Error("The connection to NATS was closed.");
  } finally {
    removeListener();
    clearTimeout(closeTimer);
    // When the client closes the connection, it removes its listeners from the socket. If the server is gone, the
    // client's last write fails shortly afterwards. Without a listener, that error would end the process.
    await nextTurn();
    await connection.close();
  }
}

/** No server of NATS_URL accepted the connection. The error message gives each server's reason, and no secret. */
export class NatsUnavailableError extends Error {
  override readonly name = "NatsUnavailableError";
}

const DEFAULT_CONNECT_TIMEOUT_MS = 2_000;

/** Time between two pings. A server that leaves two pings unanswered counts as dead. */
const PING_INTERVAL_MS = 3_000;

const ACCESS_CODES: readonly string[] = [
  ErrorCode.AuthorizationViolation,
  ErrorCode.AuthenticationExpired,
  ErrorCode.AuthenticationTimeout,
  ErrorCode.AccountExpired,
];

/** Error codes that mean that the server closed the connection before it accepted the client. */
const CLOSED_CODES: readonly string[] = [
  ErrorCode.ConnectionRefused,
  ErrorCode.ConnectionClosed,
  ErrorCode.Disconnect,
  ...["ECONNRESET", "EPIPE"],
];

/**
 * Connects to one of the servers in NATS_URL. The servers are tried in random order, so that the connections of many
 * processes are spread over the cluster. The connection never reconnects. Servers that the cluster advertises are not
 * used, because their addresses may be unreachable from here or missing in their certificates.
 *
 * @param name name of the connection at the server
 * @param timeoutMs time limit for each address of a server, in milliseconds
 * @param signal if it aborts, no further server is tried
 * @throws {NatsUnavailableError}
 */
export async function connectNats(
  settings: NatsSettings,
  name: string,
  timeoutMs = DEFAULT_CONNECT_TIMEOUT_MS,
  signal?: AbortSignal,
): Promise<NatsConnection> {
  const problems: string[] = [];
  for (const server of shuffle(parseNatsUrl(settings.NATS_URL) ?? [])) {
    if (signal?.aborted) break;
    try {
      return await connect({
        servers: server.host,
        name,
        ...getTlsOptions(settings, server),
        authenticator: getAuthenticator(settings, server),
        reconnect: false,
        timeout: timeoutMs,
        pingInterval: PING_INTERVAL_MS,
        maxPingOut: 2,
        // A stack trace for each message costs more than sending the message.
        noAsyncTraces: true,
      });
    } catch (error) {
      problems.push(`${server.host}: ${describeProblem(error, settings, server)}`);
    }
  }
  throw new NatsUnavailableError(`NATS_URL: no server accepts the connection (${problems.join("; ")})`);
}

/**
 * Reads the certificate files before the client connects. Otherwise, the client reads them between the server's
 * greeting and the TLS handshake, without a listener on the socket. If the server closed the connection then, the
 * process would end.
 *
 * @returns an empty object if the server decides whether to use TLS
 */
function getTlsOptions(settings: NatsSettings, server: NatsServer): { tls?: TlsOptions } {
  const { NATS_CA_FILE: caFile, NATS_CERT_FILE: certFile, NATS_KEY_FILE: keyFile } = settings;
  if (!server.requiresTls && caFile === undefined && certFile === undefined) return {};
  const read = (file: string) => readFileSync(file, "utf8");
  const ca = caFile && { ca: read(caFile) };
  return { tls: { ...ca, ...(certFile && { cert: read(certFile) }), ...(keyFile && { key: read(keyFile) }) } };
}

function getAuthenticator({ NATS_CREDENTIALS, NATS_NKEY_SEED }: NatsSettings, { login }: NatsServer): Authenticator {
  const encoder = new TextEncoder();
  if (NATS_CREDENTIALS !== undefined) return credsAuthenticator(encoder.encode(NATS_CREDENTIALS));
  if (NATS_NKEY_SEED !== undefined) return nkeyAuthenticator(encoder.encode(NATS_NKEY_SEED));
  if (login === undefined) return () => undefined;
  if ("token" in login) return () => ({ auth_token: login.token });
  return () => ({ user: login.user, pass: login.password });
}

function describeProblem(error: unknown, settings: NatsSettings, server: NatsServer): string {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof NatsError) {
    if (ACCESS_CODES.includes(error.code)) return `access denied; check ${describeLogin(settings, server)}`;
    if (isRefused(error)) return "connection refused";
    if (error.code === ErrorCode.Timeout) return "no response in time";
    if (error.code === ErrorCode.ServerOptionNotAvailable) return "the server does not offer TLS";
    if (error.code === ErrorCode.BadCreds) return "NATS_CREDENTIALS must be the content of a credentials file";
  }
  if (code === "ERR_TLS_CERT_ALTNAME_INVALID") return "the server's certificate is for another host; check NATS_URL";
  // A server that misses a client certificate sends an alert and closes the connection. The alert can get lost.
  if (code?.startsWith("ERR_SSL") || CLOSED_CODES.includes(code ?? ""))
    return `the server closed the connection (${code}); if it requires TLS, check NATS_CERT_FILE and NATS_KEY_FILE`;
  if (code !== undefined && /CERT|SIGNATURE|ISSUER/.test(code)) return `${message}; check NATS_CA_FILE`;
  return message || String(code);
}

/**
 * Returns true if no server listens. The client library also uses `ConnectionRefused` if a connection closes without an
 * error, so the cause must match, too.
 */
function isRefused({ code, chainedError }: NatsError): boolean {
  return code === ErrorCode.ConnectionRefused && (chainedError as NodeJS.ErrnoException)?.code === "ECONNREFUSED";
}

function describeLogin(settings: NatsSettings, { login }: NatsServer): string {
  for (const name of ["NATS_CREDENTIALS", "NATS_NKEY_SEED"] as const) if (settings[name] !== undefined) return name;
  if (login !== undefined) return `the ${"token" in login ? "token" : "user and password"} in NATS_URL`;
  return settings.NATS_CERT_FILE === undefined ? "NATS_URL, which contains no credentials" : "NATS_CERT_FILE";
}

function shuffle<Value>(values: readonly Value[]): Value[] {
  return values
    .map((value) => ({ value, order: Math.random() }))
    .sort((a, b) => a.order - b.order)
    .map(({ value }) => value);
}
