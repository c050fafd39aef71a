import fs from "node:fs";
import { z } from "zod";
import { parseConnectionString } from "../../../shared/postgres/connection-string.ts";
import { replaceFile } from "../setup/local-root.ts";
import { SERVICE_NAMES } from "./environment.ts";
import type { LocalStack } from "./stack.ts";

const createTextFields = <Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, z.string()])) as Record<Name, z.ZodString>;

/** Describes the running stack. Contains passwords and keys. */
const stackFileSchema = z.object({
  /** The server URLs contain passwords. */
  urls: z.object({
    ...createTextFields(...SERVICE_NAMES, "eventstore", "nats"),
    postgres: z.object(createTextFields("projection", "command", "query", "audit")),
  }),
  apis: z.object(createTextFields("portal", "sandbox", "production", "audit", "operations", "reference")),
  /** Private JWK Set that signs audit exports, as JSON text. */
  auditSigningKeys: z.string(),
  /** Master keys of personal data, as JSON text: `{current, keys}`. */
  personalDataKeys: z.string(),
  /** Keys for encrypting webhook secrets, as JSON text: `{current, keys}`. */
  webhookSecretKeys: z.string(),
  demo: z.object({
    portalUsers: z.array(z.object(createTextFields("id", "name", "role", "clinic", "clinicId", "email", "cookie"))),
    applications: z.array(
      z.object({
        ...createTextFields("name", "environment", "clientId", "clientSecret", "clinicId", "branchId", "animalId"),
        scopes: z.array(z.string()),
      }),
    ),
    /** Auditor with access to all recorded events. */
    auditor: z.object(createTextFields("credential")),
    /** System that may run all commands about clinics. */
    operator: z.object(createTextFields("credential")),
  }),
});

export type StackFile = z.infer<typeof stackFileSchema>;

export type DemoAccess = StackFile["demo"];

/** Writes the stack file, which scripts, the demo and command-line programs read. Returns its content. */
export function writeStackFile({ servers, urls, operationsUrl }: LocalStack, demoAccess: DemoAccess): StackFile {
  const { gateway: gatewayUrl } = urls;
  const { auditSigningKeys, personalDataKeys, webhookSecretKeys } = servers.root.secrets;
  const content: StackFile = {
    urls: {
      ...urls,
      eventstore: servers.eventstoreUrl,
      nats: servers.natsUrl,
      postgres: servers.databaseUrls,
    },
    apis: {
      portal: `${gatewayUrl}/api/v1`,
      sandbox: `${gatewayUrl}/sandbox/v1`,
      production: `${gatewayUrl}/production/v1`,
      audit: `${gatewayUrl}/audit/v1`,
      operations: operationsUrl,
      reference: `${gatewayUrl}/docs`,
    },
    auditSigningKeys,
    personalDataKeys,
    webhookSecretKeys,
    demo: demoAccess,
  };
  replaceFile(servers.root.paths.stack, `${JSON.stringify(content, null, 2)}\n`);
  return content;
}

/**
 * Reads the description of the running stack.
 *
 * @returns undefined if no stack is running
 * @throws {Error} one line, if the file is invalid, for example because a stack of another version wrote it
 */
export function readStackFile(file: string): StackFile | undefined {
  if (!fs.existsSync(file)) return undefined;
  try {
    return stackFileSchema.parse(JSON.parse(fs.readFileSync(file, "utf8")));
  } catch {
    throw new Error(
      `${file} is invalid. Another version of this project may have started the stack. Restart it with npm start.`,
    );
  }
}

type RunningStack = Pick<StackFile, "auditSigningKeys" | "personalDataKeys" | "webhookSecretKeys"> & {
  urls: Pick<StackFile["urls"], "eventstore" | "nats" | "gateway"> & { postgres: { projection: string } };
};

/**
 * Returns the settings that a command-line program takes from the running stack. Never replaces a setting of `env`.
 *
 * - The stack's log and database are used only together, because a program may compare the read models with the log. If
 *   `env` names another log or database, neither is used.
 * - The stack's keys and token issuer are used only with its log.
 * - The stack's NATS server is used only with its database.
 */
export function buildCommandLineEnvironment(env: NodeJS.ProcessEnv, stack: RunningStack): NodeJS.ProcessEnv {
  const { eventstore: eventstoreUrl, nats: natsUrl, gateway: gatewayUrl, postgres: postgresUrls } = stack.urls;
  const usesStackUrl = (name: string, url: string) => !env[name] || env[name] === url;
  const settings: NodeJS.ProcessEnv = {};
  const setIfMissing = (name: string, value: string) => {
    if (!env[name]) settings[name] = value;
  };
  if (usesStackUrl("EVENTSTORE_URL", eventstoreUrl) && usesStackUrl("DATABASE_URL", postgresUrls.projection)) {
    setIfMissing("EVENTSTORE_URL", eventstoreUrl);
    setIfMissing("DATABASE_URL", postgresUrls.projection);
  }
  if ({ ...env, ...settings }.DATABASE_URL === postgresUrls.projection) setIfMissing("NATS_URL", natsUrl);
  if ({ ...env, ...settings }.EVENTSTORE_URL === eventstoreUrl) {
    setIfMissing("AUDIT_SIGNING_KEYS", stack.auditSigningKeys);
    setIfMissing("PERSONAL_DATA_KEYS", stack.personalDataKeys);
    setIfMissing("WEBHOOK_SECRET_KEYS", stack.webhookSecretKeys);
    setIfMissing("TOKEN_ISSUER", gatewayUrl);
  }
  return settings;
}

/** Formats the message of `npm start`. Omits the passwords of external servers. */
export function formatReadyMessage({ apis, urls, demo }: StackFile, root: string, durationMs: number): string {
  const [user] = demo.portalUsers;
  const application = demo.applications.find(({ environment }) => environment === "sandbox");
  const { hosts, path: databasePath } = parseConnectionString(urls.postgres.projection);
  return `
Clinic Service is ready (${(durationMs / 1000).toFixed(1)} s). Press Ctrl-C to stop.
  portal API    ${apis.portal}
  partner API   ${apis.sandbox}  ${apis.production}
  API reference ${apis.reference}
  partner page  ${urls.gateway}/partner${application ? `  (client id: ${application.clientId}, client secret: ${application.clientSecret})` : ""}
  portal user   ${user?.id} (${user?.name}; the option --user of commands)
  audit page    ${urls.gateway}/audit  (credential: ${demo.auditor.credential})
  operations    ${apis.operations}  (credential: ${demo.operator.credential})
  event log     ${removeCredentials(urls.eventstore)}
  Postgres      ${hosts.join(",")}${databasePath}
  NATS          ${removeCredentials(urls.nats)}
  logs          ${root}/logs/*.log
  all details   ${root}/stack.json (URLs, demo users, applications and auditor)

Try in another terminal:
  npm run demo                    follow an appointment: create, read, webhook, replay
  npm run projection -- status    progress of the read models
  npm run clinic -- --help        commands for operators
README.md has example requests for staff and partners, and docs/auditing.md for auditors.
`;
}

function removeCredentials(url: string): string {
  return url.replace(/\/\/.*@/s, "//");
}
