import fs from "node:fs";
import { z } from "zod";
import type { DemoAccess } from "../demo-data/demo-data.ts";
import type { SavedFile } from "../setup/saved-file.ts";
import type { ServiceName } from "./environment.ts";
import type { Stack } from "./stack.ts";

/** One URL for each service. */
const serviceUrls = {
  projection: z.string(),
  command: z.string(),
  queryApi: z.string(),
  audit: z.string(),
  gateway: z.string(),
};

const portalUser = z.object({
  name: z.string(),
  role: z.string(),
  clinic: z.string(),
  clinicId: z.string(),
  email: z.string(),
  cookie: z.string(),
});

const application = z.object({
  name: z.string(),
  environment: z.string(),
  clientId: z.string(),
  clientSecret: z.string(),
  clinicId: z.string(),
  branchId: z.string(),
  animalId: z.string(),
  scopes: z.array(z.string()),
});

/** Content of `stack.json`, which describes the running stack. It holds passwords and keys. */
const schema = z.object({
  startedAt: z.string(),
  pid: z.int(),
  /** URL of each service, and of each server with its password. */
  urls: z.object({
    ...serviceUrls,
    eventstore: z.string(),
    nats: z.string(),
    postgres: z.object({
      projection: z.string(),
      command: z.string(),
      query: z.string(),
      audit: z.string(),
    }),
  }),
  /** Base URL of each API. */
  apis: z.object({
    portal: z.string(),
    sandbox: z.string(),
    production: z.string(),
    audit: z.string(),
    reference: z.string(),
  }),
  /** Readiness URL of each service. */
  health: z.object(serviceUrls),
  /** Private JWK Set as JSON text. */
  auditSigningKeys: z.string(),
  /** {current, keys} as JSON text. */
  webhookSecretKeys: z.string(),
  demo: z.object({
    portalUsers: z.array(portalUser),
    applications: z.array(application),
    auditor: z.object({ credential: z.string() }),
  }),
});

export type StackFile = z.infer<typeof schema>;

/** Saves the description of the running stack for scripts, the demo and the command lines. */
export function writeStackFile(stack: Stack, demo: DemoAccess, file: SavedFile): void {
  const { servers, urls } = stack;
  const { gateway } = urls;
  const health = (service: ServiceName) => `${urls[service]}/health/ready`;
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
      portal: `${gateway}/api/v1`,
      sandbox: `${gateway}/sandbox/v1`,
      production: `${gateway}/production/v1`,
      audit: `${gateway}/audit/v1`,
      reference: `${gateway}/docs`,
    },
    health: {
      gateway: health("gateway"),
      command: health("command"),
      queryApi: health("queryApi"),
      audit: health("audit"),
      projection: health("projection"),
    },
    auditSigningKeys: servers.root.secrets.auditSigningKeys,
    webhookSecretKeys: servers.root.secrets.webhookSecretKeys,
    demo,
  };
  file.save(`${JSON.stringify(content, null, 2)}\n`);
}

/**
 * Reads the description of the running stack.
 *
 * @returns undefined if no stack runs
 * @throws {Error} one line, if a stack of another version wrote the file
 */
export function readStackFile(file: string): StackFile | undefined {
  if (!fs.existsSync(file)) return undefined;
  try {
    return schema.parse(JSON.parse(fs.readFileSync(file, "utf8")));
  } catch {
    throw new Error(
      `${file} cannot be read: another version of this project started the stack. Restart it with npm start.`,
    );
  }
}
