import type { Servers } from "../servers/servers.ts";
import type { Ports } from "../setup/ports.ts";
import type { LocalSecrets } from "../setup/secrets.ts";

export type ServiceName = "projection" | "command" | "queryApi" | "audit" | "gateway";
export type Environment = Record<string, string>;
export type Environments = Record<ServiceName, Environment>;

/** URL of each service on loopback. */
export type ServiceUrls = Record<ServiceName, string>;

export interface EnvironmentOptions {
  ports: Ports;
  secrets: LocalSecrets;
  servers: Pick<Servers, "eventstoreUrl" | "natsUrl" | "databaseUrls">;
  /** Environment of the person who starts the stack. Settings that the stack does not set pass to every service. */
  inherited: NodeJS.ProcessEnv;
  /** Settings of one service that override all others. */
  overrides?: Partial<Record<ServiceName, Environment>> | undefined;
}

/** Settings that services never inherit: each service gets its own value, or none. */
const NOT_INHERITED = ["DATABASE_URL", "EVENTSTORE_URL", "NATS_URL", "NODE_OPTIONS", "NODE_V8_COVERAGE"];

/** Session cookie and issuer of the portal users, as an identity provider of the local stack would use them. */
export const PORTAL_COOKIE_NAME = "sb-local-auth-token";
export const getPortalIssuer = (urls: ServiceUrls) => `${urls.gateway}/auth/v1`;

/** Returns the URL of each service. */
export function buildServiceUrls(ports: Ports): ServiceUrls {
  const at = (port: number) => `http://127.0.0.1:${port}`;
  return {
    projection: at(ports.projection),
    command: at(ports.command),
    queryApi: at(ports.queryApi),
    audit: at(ports.audit),
    gateway: at(ports.gateway),
  };
}

/** Defaults that the starter's environment can override. */
const DEFAULT_SETTINGS: Partial<Record<ServiceName, Environment>> = {
  // Short, so that a person can watch a delivery fail.
  projection: { WEBHOOK_RETRY_SCHEDULE: "1,2,3" },
};

/** Returns the whole environment of every service. Services inherit nothing else. */
export function buildServiceEnvironments(options: EnvironmentOptions): Environments {
  const { ports, inherited, overrides } = options;
  const common = {
    ...selectInherited(inherited),
    HOST: "127.0.0.1",
    OPERATOR_NAME: inherited.OPERATOR_NAME ?? "Clinic Service Local",
  };
  const environments = Object.entries(buildServiceSettings(options)).map(([key, settings]) => {
    const name = key as ServiceName;
    const own = { PORT: String(ports[name]), ...settings, ...overrides?.[name] };
    return [name, { ...DEFAULT_SETTINGS[name], ...common, ...own }];
  });
  return Object.fromEntries(environments) as Environments;
}

/** Settings that differ between the services: servers, keys, and the URLs of other services. */
function buildServiceSettings({ ports, secrets, servers }: EnvironmentOptions): Environments {
  const urls = buildServiceUrls(ports);
  const log = { EVENTSTORE_URL: servers.eventstoreUrl };
  const webhooks = { WEBHOOK_SECRET_KEYS: secrets.webhookSecretKeys, WEBHOOK_ALLOW_LOOPBACK: "true" };
  const behindGateway = { TRUST_PROXY: "true" };
  return {
    projection: {
      ...log,
      ...webhooks,
      DATABASE_URL: servers.databaseUrls.projection,
      NATS_URL: servers.natsUrl,
    },
    command: {
      ...log,
      ...webhooks,
      ...behindGateway,
      DATABASE_URL: servers.databaseUrls.command,
      TOKEN_ISSUER: urls.gateway,
      TOKEN_SIGNING_KEYS: secrets.tokenSigningKeys,
    },
    queryApi: {
      ...behindGateway,
      DATABASE_URL: servers.databaseUrls.query,
      PORTAL_COOKIE_NAME,
      PORTAL_JWT_SECRET: secrets.portalJwtSecret,
      PORTAL_JWT_ISSUER: getPortalIssuer(urls),
      TOKEN_ISSUER: urls.gateway,
      TOKEN_JWKS_URL: `${urls.command}/.well-known/jwks.json`,
    },
    audit: {
      ...log,
      ...behindGateway,
      DATABASE_URL: servers.databaseUrls.audit,
      AUDIT_SIGNING_KEYS: secrets.auditSigningKeys,
    },
    gateway: { COMMAND_URL: urls.command, QUERY_API_URL: urls.queryApi, AUDIT_URL: urls.audit },
  };
}

function selectInherited(inherited: NodeJS.ProcessEnv): Environment {
  const entries = Object.entries(inherited).filter(
    (entry): entry is [string, string] =>
      entry[1] !== undefined && !NOT_INHERITED.includes(entry[0]) && !/^npm_/i.test(entry[0]),
  );
  return Object.fromEntries(entries);
}
