import { NATS_SETTING_NAMES } from "../../../projection/nats/nats-settings.ts";
import type { Servers } from "../servers/servers.ts";
import type { LocalSecrets } from "../setup/local-root.ts";
import type { Ports } from "../setup/ports.ts";

export const SERVICE_NAMES = ["projection", "command", "queryApi", "audit", "gateway"] as const;

export type ServiceName = (typeof SERVICE_NAMES)[number];
export type Environment = Record<string, string>;
export type Environments = Record<ServiceName, Environment>;

export type ServiceUrls = Record<ServiceName, string>;

interface EnvironmentOptions {
  ports: Ports;
  secrets: LocalSecrets;
  servers: Pick<Servers, "eventstoreUrl" | "natsUrl" | "databaseUrls">;
  /** Variables that the services inherit, except EXCLUDED_VARIABLES and npm's variables. */
  inheritedEnv: NodeJS.ProcessEnv;
  /** Settings for single services that override all other settings. */
  overrides?: Partial<Record<ServiceName, Environment>> | undefined;
}

const natsSettingNames: readonly string[] = NATS_SETTING_NAMES;

/**
 * Variables that services do not inherit. The stack sets URLs and NATS settings only for the services that need them.
 */
const EXCLUDED_VARIABLES = ["DATABASE_URL", "EVENTSTORE_URL", "NODE_OPTIONS", "NODE_V8_COVERAGE", ...natsSettingNames];

export const PORTAL_COOKIE_NAME = "sb-local-auth-token";

export const getPortalIssuer = (urls: ServiceUrls) => `${urls.gateway}/auth/v1`;

export function mapServices<Value>(create: (name: ServiceName) => Value): Record<ServiceName, Value> {
  const entries = SERVICE_NAMES.map((name) => [name, create(name)]);
  return Object.fromEntries(entries) as Record<ServiceName, Value>;
}

/** The command service serves the operations API on a separate port. */
export const buildOperationsUrl = (ports: Ports) => `http://127.0.0.1:${ports.operations}/operations/v1`;

export function buildServiceUrls(ports: Ports): ServiceUrls {
  return mapServices((name) => `http://127.0.0.1:${ports[name]}`);
}

export function buildServiceEnvironments(options: EnvironmentOptions): Environments {
  const { ports, inheritedEnv, overrides } = options;
  const commonSettings = {
    ...selectSettings(inheritedEnv, (name) => !EXCLUDED_VARIABLES.includes(name) && !/^npm_/i.test(name)),
    HOST: "127.0.0.1",
    // The gateway does not check readiness, so a drain would only delay the stop.
    DRAIN_DELAY_MS: "0",
    OPERATOR_NAME: inheritedEnv.OPERATOR_NAME ?? "Clinic Service Local",
  };
  const settings = buildServiceSettings(options);
  return mapServices((name) => ({
    ...commonSettings,
    PORT: String(ports[name]),
    ...settings[name],
    ...overrides?.[name],
  }));
}

function buildServiceSettings({ ports, secrets, servers, inheritedEnv }: EnvironmentOptions): Environments {
  const urls = buildServiceUrls(ports);
  const logSettings = { EVENTSTORE_URL: servers.eventstoreUrl };
  const webhookSettings = {
    WEBHOOK_SECRET_KEYS: secrets.webhookSecretKeys,
    WEBHOOK_SIGNING_KEYS: secrets.webhookSigningKeys,
    WEBHOOK_ALLOW_LOOPBACK: "true",
  };
  const personalDataSettings = { PERSONAL_DATA_KEYS: secrets.personalDataKeys };
  const gatewaySettings = { TRUST_PROXY: "true" };
  const usesExternalNats = inheritedEnv.NATS_URL === servers.natsUrl;
  return {
    projection: {
      ...logSettings,
      ...webhookSettings,
      ...personalDataSettings,
      DATABASE_URL: servers.databaseUrls.projection,
      ...selectSettings(inheritedEnv, (name) => usesExternalNats && natsSettingNames.includes(name)),
      NATS_URL: servers.natsUrl,
      // The intervals are short, so that a user of the demo can watch a delivery fail.
      WEBHOOK_RETRY_SCHEDULE: inheritedEnv.WEBHOOK_RETRY_SCHEDULE ?? "1,2,3",
    },
    command: {
      ...logSettings,
      ...webhookSettings,
      ...personalDataSettings,
      ...gatewaySettings,
      DATABASE_URL: servers.databaseUrls.command,
      TOKEN_ISSUER: urls.gateway,
      TOKEN_SIGNING_KEYS: secrets.tokenSigningKeys,
      OPERATIONS_PORT: String(ports.operations),
    },
    queryApi: {
      ...gatewaySettings,
      DATABASE_URL: servers.databaseUrls.query,
      PORTAL_COOKIE_NAME,
      PORTAL_JWT_SECRET: secrets.portalJwtSecret,
      PORTAL_JWT_ISSUER: getPortalIssuer(urls),
      TOKEN_ISSUER: urls.gateway,
      TOKEN_JWKS_URL: `${urls.command}/.well-known/jwks.json`,
    },
    audit: {
      ...logSettings,
      ...personalDataSettings,
      ...gatewaySettings,
      DATABASE_URL: servers.databaseUrls.audit,
      AUDIT_SIGNING_KEYS: secrets.auditSigningKeys,
    },
    gateway: { COMMAND_URL: urls.command, QUERY_API_URL: urls.queryApi, AUDIT_URL: urls.audit },
  };
}

function selectSettings(env: NodeJS.ProcessEnv, isSelected: (name: string) => boolean): Environment {
  const entries = Object.entries(env).filter(
    (entry): entry is [string, string] => entry[1] !== undefined && isSelected(entry[0]),
  );
  return Object.fromEntries(entries);
}
