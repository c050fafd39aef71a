import fs from "node:fs";
import { z } from "zod";
import type { SavedFile } from "../setup/saved-file.ts";
import { mapServices, SERVICE_NAMES } from "./environment.ts";
import type { Stack } from "./stack.ts";

/** Returns the fields of an object schema: one string for each name. */
const createTextFields = <Name extends string>(...names: readonly Name[]) =>
  Object.fromEntries(names.map((name) => [name, z.string()])) as Record<Name, z.ZodString>;

/** Content of `stack.json`, which describes the running stack. It contains passwords and keys. */
const stackFileSchema = z.object({
  startedAt: z.string(),
  pid: z.int(),
  /** URLs of the services and of the servers. The server URLs contain passwords. */
  urls: z.object({
    ...createTextFields(...SERVICE_NAMES, "eventstore", "nats"),
    postgres: z.object(createTextFields("projection", "command", "query", "audit")),
  }),
  /** Base URL of each API. */
  apis: z.object(createTextFields("portal", "sandbox", "production", "audit", "reference")),
  /** Readiness URL of each service. */
  health: z.object(createTextFields(...SERVICE_NAMES)),
  /** Private JWK Set that signs audit exports, as JSON text. */
  auditSigningKeys: z.string(),
  /** Master keys of personal data, as JSON text: `{current, keys}`. */
  personalDataKeys: z.string(),
  /** Keys for encrypting webhook secrets, as JSON text: `{current, keys}`. */
  webhookSecretKeys: z.string(),
  /** Credentials for the demo data. */
  demo: z.object({
    portalUsers: z.array(z.object(createTextFields("name", "role", "clinic", "clinicId", "email", "cookie"))),
    applications: z.array(
      z.object({
        ...createTextFields("name", "environment", "clientId", "clientSecret", "clinicId", "branchId", "animalId"),
        scopes: z.array(z.string()),
      }),
    ),
    /** Auditor with access to all recorded events. */
    auditor: z.object(createTextFields("credential")),
  }),
});

export type StackFile = z.infer<typeof stackFileSchema>;

/** Credentials for the demo data. */
export type DemoAccess = StackFile["demo"];

/** Saves the description of the running stack for scripts, the demo and command-line programs. */
export function writeStackFile(stack: Stack, demoAccess: DemoAccess, file: SavedFile): void {
  const { servers, urls } = stack;
  const { gateway: gatewayUrl } = urls;
  const { auditSigningKeys, personalDataKeys, webhookSecretKeys } = servers.root.secrets;
  const content: StackFile = {
    startedAt: new Date().toISOString(),
    pid: process.pid,
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
      reference: `${gatewayUrl}/docs`,
    },
    health: mapServices((service) => `${urls[service]}/health/ready`),
    auditSigningKeys,
    personalDataKeys,
    webhookSecretKeys,
    demo: demoAccess,
  };
  file.save(`${JSON.stringify(content, null, 2)}\n`);
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
