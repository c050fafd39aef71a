import { readFileSync } from "node:fs";
import { z } from "zod";
import { describeIssue } from "../domain/validation/describe-issue.ts";
import { parseNatsUrl } from "./nats-url.ts";
import {
  databaseUrlSchema,
  deprecatedPathsSchema,
  dnsServersSchema,
  egressProxyUrlSchema,
  encryptionKeysSchema,
  eventStoreUrlSchema,
  flagSchema,
  hasOneHost,
  httpUrlSchema,
  json,
  signingKeySchema,
  tracingSettings,
  wholeNumber,
} from "./setting-schemas.ts";

/**
 * Marks a setting that is a secret or contains one, such as a URL with a password. The setting can also come from a
 * file: the variable `<name>_FILE` names the file.
 */
const SECRET = { isSecret: true };

export const settings = {
  HOST: z.string().default("127.0.0.1").describe("Address to listen on."),
  PORT: wholeNumber(0, 65_535).describe("Port to listen on. 0 selects a free port."),
  DRAIN_DELAY_MS: wholeNumber(0, 60_000)
    .prefault("5000")
    .describe(
      "Time for which a process still accepts requests after SIGTERM, while /health/ready returns 503. Milliseconds.",
    ),
  LOG_LEVEL: z
    .enum(["fatal", "error", "warn", "info", "debug"])
    .default("info")
    .describe("Minimum level of log lines."),
  EVENTSTORE_URL: eventStoreUrlSchema
    .describe(
      "Connection string of the event log: one host, or the hosts of a cluster separated by commas, and all options of the EventStoreDB client except tlsVerifyCert.",
    )
    .meta(SECRET),
  COPY_TARGET_URL: eventStoreUrlSchema
    .describe("Connection string of the event log that `log copy` copies to, in the form of EVENTSTORE_URL.")
    .meta(SECRET),
  DATABASE_URL: databaseUrlSchema
    .describe(
      "Postgres URL: one or several hosts separated by commas, with the options target_session_attrs, sslmode, sslrootcert, sslcert, sslkey and sslnegotiation. The user must own the database (projection), or be a member of clinic_query, clinic_command or clinic_audit.",
    )
    .meta(SECRET),
  DATABASE_READ_URL: databaseUrlSchema
    .refine(hasOneHost, "must name one host")
    .optional()
    .describe(
      "Postgres URL of one standby that query-api reads from, in the form of DATABASE_URL. If not set, it reads from the primary.",
    )
    .meta(SECRET),
  DATABASE_POOL_SIZE: wholeNumber(1, 100)
    .prefault("6")
    .describe("Maximum number of connections of the pool that serves requests. Each process opens a few more."),
  NATS_URL: z
    .string()
    .refine(
      (text) => parseNatsUrl(text) !== undefined,
      "must be a URL like nats://host:4222 or tls://user:password@host:4222, or several URLs separated by commas",
    )
    .describe(
      "URLs of NATS servers with JetStream, separated by commas. Each is nats:// or tls://, optionally with user and password or a token.",
    )
    .meta(SECRET),
  NATS_CREDENTIALS: z
    .string()
    .regex(/-BEGIN NATS USER JWT-.*-BEGIN USER NKEY SEED-/s, "must be the content of a NATS credentials file")
    .optional()
    .describe("Content of a NATS credentials file (.creds): the JWT and the nkey seed of a user.")
    .meta(SECRET),
  NATS_NKEY_SEED: z
    .string()
    .regex(/^SU[A-Z2-7]+$/, "must be an nkey seed of a user, which begins with SU")
    .optional()
    .describe("Nkey seed of the NATS user.")
    .meta(SECRET),
  NATS_CA_FILE: z
    .string()
    .optional()
    .describe("PEM file with the certificate authorities of the NATS servers. Requires TLS for all servers."),
  NATS_CERT_FILE: z
    .string()
    .optional()
    .describe("PEM file with the client certificate for NATS. Requires TLS for all servers."),
  NATS_KEY_FILE: z.string().optional().describe("PEM file with the private key of the client certificate for NATS."),
  NATS_STREAM_REPLICAS: wholeNumber(1, 5)
    .optional()
    .describe(
      "Minimum number of replicas of the JetStream stream. If not set, up to three, as the cluster allows. The service never removes replicas.",
    ),
  HEADER_BRAND: z
    .string()
    .regex(/^[A-Za-z0-9]+$/, "must be letters and digits")
    .default("SERVICE")
    .describe("Brand segment of header names, as in X-<brand>-Clinic-ID."),
  OPERATOR_NAME: z
    .string()
    .min(1)
    .describe("Name of the service's operator. Portal responses contain it in the field identityOwner."),
  OPERATIONS_PORT: wholeNumber(0, 65_535)
    .optional()
    .describe("Port of the operations API, with which a clinic's own systems run commands. If not set, it is off."),
  OPERATIONS_HOST: z
    .string()
    .default("127.0.0.1")
    .describe("Address of the operations API. It must be reachable only from the clinic's own network."),
  TRUST_PROXY: flagSchema
    .prefault("false")
    .describe("If true, the caller's address is read from X-Forwarded-For. Set it only behind your own proxy."),
  RETIRED_PATHS: z
    .string()
    .default("/api/v1/mobile/")
    .transform((text) => text.split(",").filter((prefix) => prefix !== ""))
    .describe("Path prefixes of retired operations, separated by commas. Requests to these paths return 410."),
  DEPRECATED_PATHS: deprecatedPathsSchema
    .optional()
    .describe(
      "Path prefixes of deprecated operations, separated by commas, each with the dates of deprecation and end: `/sandbox/v1/example=2027-01-01/2028-01-01`. Their responses have the headers `Deprecation` and `Sunset`.",
    ),
  PORTAL_COOKIE_NAME: z
    .string()
    .regex(/^sb-[A-Za-z0-9_-]+-auth-token$/, "must be a name like sb-<project_ref>-auth-token")
    .describe("Name of the portal's session cookie, in the form sb-<project_ref>-auth-token."),
  PORTAL_JWT_ISSUER: httpUrlSchema.describe("Issuer of portal sessions."),
  PORTAL_JWT_SECRET: z
    .string()
    .min(32)
    .optional()
    .describe("Shared secret for verifying portal sessions that are signed with HS256.")
    .meta(SECRET),
  PORTAL_JWKS_URL: httpUrlSchema
    .optional()
    .describe("URL of the public keys for verifying portal sessions that are signed with ES256 or RS256."),
  TOKEN_ISSUER: httpUrlSchema.describe("Issuer of partner access tokens: the partner API's public origin."),
  TOKEN_SIGNING_KEYS: json(z.object({ keys: z.array(signingKeySchema).min(1) }))
    .describe(
      "Private JWK Set of Ed25519 keys for partner access tokens. The first key signs. All public halves are published.",
    )
    .meta(SECRET),
  AUDIT_SIGNING_KEYS: json(z.object({ keys: z.array(signingKeySchema).min(1) }))
    .describe(
      "Private JWK Set of Ed25519 keys for audit exports and tree heads. The first key signs. All public halves are published.",
    )
    .meta(SECRET),
  AUDIT_TREE_HEAD_INTERVAL_MS: wholeNumber(0, 604_800_000)
    .prefault("3600000")
    .describe("Time between two signed tree heads that the audit service publishes. 0 publishes none. Milliseconds."),
  TOKEN_JWKS_URL: httpUrlSchema.describe("URL of the public keys for verifying partner access tokens."),
  PERSONAL_DATA_KEYS: json(encryptionKeysSchema)
    .describe(
      'Master keys that wrap the data keys of personal data: {"current": id, "keys": {id: base64 of 32 bytes}}. The current key wraps new data keys. Without these keys, personal data in the event log is lost.',
    )
    .meta(SECRET),
  WEBHOOK_SECRET_KEYS: json(encryptionKeysSchema)
    .describe('Keys for encrypting webhook secrets: {"current": id, "keys": {id: base64 of 32 bytes}}.')
    .meta(SECRET),
  WEBHOOK_SIGNING_KEYS: json(z.object({ keys: z.array(signingKeySchema).min(1) }))
    .optional()
    .describe(
      "Private JWK Set of Ed25519 keys for asymmetric webhook signatures. The first key signs. All public halves are published. If not set, endpoints cannot request these signatures.",
    )
    .meta(SECRET),
  WEBHOOK_ALLOW_LOOPBACK: flagSchema
    .prefault("false")
    .describe("If true, webhooks may be sent to loopback addresses, also by plain http. Set it only in a local stack."),
  WEBHOOK_DNS_SERVERS: dnsServersSchema
    .optional()
    .describe(
      "DNS servers that look up the hosts of webhook endpoints, as address:port separated by commas. If not set, those of the machine.",
    ),
  WEBHOOK_EGRESS_PROXY_URL: egressProxyUrlSchema
    .optional()
    .describe(
      "URL of an HTTP proxy that supports CONNECT, for all webhooks except to loopback addresses: http:// or https://, optionally with user and password.",
    )
    .meta(SECRET),
  WEBHOOK_RETRY_SCHEDULE: z
    .string()
    .default("5,30,300,1800,7200,18000,36000,50400,72000,86400")
    .transform((text) => (text === "" ? [] : text.split(",").map(Number)))
    .pipe(z.array(z.number().positive()).max(20))
    .describe("Seconds to wait before each retry of a webhook, separated by commas."),
  WEBHOOK_CONNECT_TIMEOUT_MS: wholeNumber(100, 60_000)
    .prefault("5000")
    .describe(
      "Time limit for DNS lookup, connection and TLS handshake of each attempt to send a webhook. Milliseconds.",
    ),
  WEBHOOK_TIMEOUT_MS: wholeNumber(100, 60_000)
    .prefault("10000")
    .describe(
      "Time limit from the established connection to the end of the response's headers, for each attempt. Milliseconds.",
    ),
  ROLES: z
    .string()
    .default("projectors,relay,webhooks")
    .transform((text) => text.split(","))
    .pipe(z.array(z.enum(["projectors", "relay", "webhooks"])).min(1))
    .refine((roles) => new Set(roles).size === roles.length, "must name each role once")
    .describe("Roles that this projection process runs, separated by commas."),
  ...tracingSettings,
} as const;

export type Settings = typeof settings;
export type Config<Name extends keyof Settings> = { [Key in Name]: z.output<Settings[Key]> };

/** Thrown if settings are missing or invalid. The message names all these settings. */
export class ConfigError extends Error {
  override readonly name = "ConfigError";
}

/** Returns true if a setting is a secret, so that it can also come from the file that `<name>_FILE` names. */
export function isSecret(name: keyof Settings): boolean {
  return settings[name].meta()?.isSecret === true;
}

/**
 * Reads the named settings from an environment. Reads the files of secrets once.
 *
 * @throws {ConfigError} with one line that names every missing or invalid setting, without its value
 */
export function readConfig<Name extends keyof Settings>(
  names: readonly Name[],
  env: Record<string, string | undefined>,
): Config<Name> {
  const problems: string[] = [];
  const config: Partial<Record<Name, unknown>> = {};
  for (const name of names) {
    const source = isSecret(name) ? readSecret(name, env) : { text: env[name] };
    if ("problem" in source) {
      problems.push(source.problem);
      continue;
    }
    const parseResult = settings[name].safeParse(source.text);
    if (parseResult.success) config[name] = parseResult.data;
    else if (source.text === undefined) problems.push(`${name} is missing (${settings[name].description})`);
    else problems.push(`${name} ${parseResult.error.issues.map(describeIssue).join(", ")}`);
  }
  if (problems.length > 0) throw new ConfigError(`settings: ${problems.join("; ")}`);
  return config as Config<Name>;
}

/**
 * Returns a copy of an environment that contains the secrets themselves instead of the names of their files. A program
 * that passes its environment to other programs can then replace single secrets.
 *
 * @throws {ConfigError} with one line that names every file that cannot be read
 */
export function loadSecretFiles(env: Record<string, string | undefined>): Record<string, string | undefined> {
  const loadedEnv = { ...env };
  const problems: string[] = [];
  for (const name of (Object.keys(settings) as (keyof Settings)[]).filter(isSecret)) {
    const source = readSecret(name, env);
    if ("problem" in source) problems.push(source.problem);
    else if (source.text !== undefined) loadedEnv[name] = source.text;
    delete loadedEnv[getFileVariable(name)];
  }
  if (problems.length > 0) throw new ConfigError(`settings: ${problems.join("; ")}`);
  return loadedEnv;
}

/** Text of a setting, or the problem that prevents reading it. The text is undefined if the setting is not set. */
type SettingText = { text: string | undefined } | { problem: string };

function getFileVariable(name: string): string {
  return `${name}_FILE`;
}

/**
 * Reads a secret from its variable or from the file that `<name>_FILE` names. A newline at the end of the file is
 * removed. A problem never contains the file's name, because a user may set `<name>_FILE` to the secret by mistake.
 */
function readSecret(name: string, env: Record<string, string | undefined>): SettingText {
  const fileVariable = getFileVariable(name);
  const file = env[fileVariable];
  if (file === undefined) return { text: env[name] };
  if (env[name] !== undefined) return { problem: `${name} and ${fileVariable} are both set, but only one may be` };
  try {
    return { text: readFileSync(file, "utf8").replace(/\r?\n$/, "") };
  } catch (error) {
    return { problem: `${fileVariable} names a file that cannot be read (${(error as NodeJS.ErrnoException).code})` };
  }
}
