import type { DemoAccess } from "../demo-data/demo-data.ts";
import type { SavedFile } from "../setup/saved-file.ts";
import type { ServiceName } from "./environment.ts";
import type { Stack } from "./stack.ts";

/**
 * Saves what scripts need to know of a running stack: URLs of all parts (passwords among them), bases of the APIs,
 * health checks, the keys that command lines work with, and what the demo data bring.
 *
 * @param demo how to get in: users and applications
 */
export function writeStackFile(stack: Stack, demo: DemoAccess, file: SavedFile): void {
  const { servers, urls } = stack;
  const { gateway } = urls;
  const health = (service: ServiceName) => `${urls[service]}/health/ready`;
  const content = {
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
