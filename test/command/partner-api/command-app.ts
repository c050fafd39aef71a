import { randomBytes, randomUUID } from "node:crypto";
import { pino } from "pino";
import { type CommandAppOptions, createCommandApp } from "../../../command/app.ts";
import { loadAggregate } from "../../../command/handling/handle.ts";
import { createLinkCodes } from "../../../command/operations/link-codes.ts";
import { createReadModels } from "../../../command/partner-api/read-models.ts";
import { createTokenSigner } from "../../../command/partner-api/token-signer.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { type ClientTimeouts, listen } from "../../../shared/http/listen.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createRateLimiter } from "../../../shared/rate-limit/limiter.ts";
import { PERSONAL_DATA_KEYS } from "../../support/data-keys.ts";
import {
  type PartnerResponse,
  type PartnerWorld,
  sendRequest,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import { autoStop, releaseLater } from "../../support/resources.ts";
import { startServiceEntry } from "../../support/service-entry.ts";
import { getTestServers } from "../../support/stack.ts";

/** Creates an appointment as a partner. @param overrides fields that replace those of a valid body */
export function postAppointment(
  url: string,
  { environment, branchId, animalId, headers }: PartnerWorld,
  key: string = randomUUID(),
  overrides: Record<string, unknown> = {},
): Promise<PartnerResponse> {
  const body = { branchId, animalId, scheduledAt: "2099-05-04T10:00:00Z", ...overrides };
  return sendRequest("POST", `${url}/${environment}/v1/appointments`, { ...headers, "Idempotency-Key": key }, body);
}

/**
 * Serves the command application in this process. It accepts the tokens of the given service.
 *
 * @param options replace default options
 */
export async function serveCommandApp(
  command: TestCommand,
  options: Partial<CommandAppOptions>,
  clientTimeouts?: ClientTimeouts,
): Promise<{ url: string; stop(): Promise<void> }> {
  const logger = pino({ enabled: false });
  const { databaseUrls } = await getTestServers();
  const pool = createPool({
    url: databaseUrls.command,
    applicationName: "test",
    size: 2,
    statementTimeoutMs: 1_000,
    logger,
  });
  const limiter = createRateLimiter(pool, logger);
  const app = createCommandApp({
    logger,
    log: command.log,
    decide: (decide) => decide((aggregate, id) => loadAggregate(options.log ?? command.log, aggregate, id)),
    checkReadiness: async () => ({}),
    limiter,
    waitForReadModels: async () => undefined,
    ...createReadModels(pool, command.log, logger),
    tokenSigner: await createTokenSigner([command.signingKey as never], TOKEN_ISSUER),
    tokenIssuer: TOKEN_ISSUER,
    secretBox: createSecretBox({ current: "k1", keys: { k1: randomBytes(32).toString("base64") } }),
    linkCodes: createLinkCodes(JSON.parse(PERSONAL_DATA_KEYS)),
    webhookKeys: { keys: [] },
    allowsLoopback: true,
    brand: "SERVICE",
    retiredPaths: [],
    isProxyTrusted: false,
    ...options,
  });
  const server = await autoStop(listen(app.callback(), "127.0.0.1", 0, undefined, clientTimeouts));
  return {
    url: server.url,
    stop: releaseLater(async () => {
      await server.close();
      limiter.close();
      await pool.end();
    }),
  };
}

/** Starts the command service in a separate process. It accepts the tokens of the given service. */
export async function spawnCommand(
  { signingKey }: TestCommand,
  eventstoreUrl: string,
): Promise<{ url: string; stop(signal: "SIGTERM" | "SIGKILL"): Promise<unknown> }> {
  const { databaseUrls } = await getTestServers();
  const { url, end } = await startServiceEntry("command/main.ts", {
    PATH: process.env.PATH,
    PORT: "0",
    DRAIN_DELAY_MS: "0",
    EVENTSTORE_URL: eventstoreUrl,
    DATABASE_URL: databaseUrls.command,
    TOKEN_ISSUER,
    TOKEN_SIGNING_KEYS: JSON.stringify({ keys: [signingKey] }),
    PERSONAL_DATA_KEYS,
    WEBHOOK_SECRET_KEYS: JSON.stringify({ current: "k1", keys: { k1: randomBytes(32).toString("base64") } }),
  });
  return { url, stop: end };
}
