import type { Servers } from "../servers/servers.ts";
import type { Ports } from "../setup/ports.ts";
import type { LocalSecrets } from "../setup/secrets.ts";

export type ServiceName = "projection" | "command" | "queryApi" | "audit" | "gateway";
export type Environment = Record<string, string>;
export type Environments = Record<ServiceName, Environment>;

/** Where each service answers, on loopback. */
export type ServiceUrls = Record<ServiceName, string>;

export interface EnvironmentOptions {
  ports: Ports;
  secrets: LocalSecrets;
  servers: Pick<Servers, "eventstoreUrl" | "natsUrl" | "databaseUrls">;
  /** The environment of whoever starts the stack: what is not set here passes through to every service. */
  inherited: NodeJS.ProcessEnv;
  /** Settings of one service, over all others. */
  extra?: Partial<Record<ServiceName, Environment>> | undefined;
}

/** Rights that no service gets from the starter's environment: each is given its own below, or has none. */
const NOT_INHERITED = ["DATABASE_URL", "EVENTSTORE_URL", "NATS_URL", "NODE_OPTIONS", "NODE_V8_COVERAGE"];

/** The portal's session, as the local stack's own identity provider would make it. */
export const PORTAL_COOKIE_NAME = "sb-local-auth-token";
export const portalIssuer = (urls: ServiceUrls) => `${urls.gateway}/auth/v1`;

/** Where each service answers, given its port. */
export function serviceUrls(ports: Ports): ServiceUrls {
  const at = (port: number) => `http://127.0.0.1:${port}`;
  return {
    projection: at(ports.projection),
    command: at(ports.command),
    queryApi: at(ports.queryApi),
    audit: at(ports.audit),
    gateway: at(ports.gateway),
  };
}

/** The whole environment of every service: the one place that knows what a service is told. */
export function serviceEnvironments(options: EnvironmentOptions): Environments {
  const { ports, secrets, servers, extra } = options;
  const urls = serviceUrls(ports);
  const common = {
    ...passedThrough(options.inherited),
    HOST: "127.0.0.1",
    OPERATOR_NAME: options.inherited.OPERATOR_NAME ?? "Clinic Service Local",
  };
  const log = { EVENTSTORE_URL: servers.eventstoreUrl };
  const webhooks = { WEBHOOK_SECRET_KEYS: secrets.webhookSecretKeys, WEBHOOK_ALLOW_LOOPBACK: "true" };
  return {
    projection: {
      // Short enough for a person to see a delivery fail.
      WEBHOOK_RETRY_SCHEDULE: "1,2,3",
      ...common,
      ...log,
      ...webhooks,
      PORT: String(ports.projection),
      DATABASE_URL: servers.databaseUrls.projection,
      NATS_URL: servers.natsUrl,
      ...extra?.projection,
    },
    command: {
      ...common,
      ...log,
      ...webhooks,
      PORT: String(ports.command),
      DATABASE_URL: servers.databaseUrls.command,
      TRUST_PROXY: "true",
      TOKEN_ISSUER: urls.gateway,
      TOKEN_SIGNING_KEYS: secrets.tokenSigningKeys,
      ...extra?.command,
    },
    queryApi: {
      ...common,
      PORT: String(ports.queryApi),
      DATABASE_URL: servers.databaseUrls.query,
      TRUST_PROXY: "true",
      PORTAL_COOKIE_NAME,
      PORTAL_JWT_SECRET: secrets.portalJwtSecret,
      PORTAL_JWT_ISSUER: portalIssuer(urls),
      TOKEN_ISSUER: urls.gateway,
      TOKEN_JWKS_URL: `${urls.command}/.well-known/jwks.json`,
      ...extra?.queryApi,
    },
    audit: {
      ...common,
      ...log,
      PORT: String(ports.audit),
      DATABASE_URL: servers.databaseUrls.audit,
      TRUST_PROXY: "true",
      AUDIT_SIGNING_KEYS: secrets.auditSigningKeys,
      ...extra?.audit,
    },
    gateway: {
      ...common,
      PORT: String(ports.gateway),
      COMMAND_URL: urls.command,
      QUERY_API_URL: urls.queryApi,
      AUDIT_URL: urls.audit,
      ...extra?.gateway,
    },
  };
}

function passedThrough(inherited: NodeJS.ProcessEnv): Environment {
  const entries = Object.entries(inherited).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && !NOT_INHERITED.includes(entry[0]) && !/^npm_/i.test(entry[0]),
  );
  return Object.fromEntries(entries);
}
