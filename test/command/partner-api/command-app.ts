import { randomBytes } from "node:crypto";
import { pino } from "pino";
import { type CommandAppOptions, createCommandApp } from "../../../command/app.ts";
import { createUncachedDecider } from "../../../command/handling/aggregate-cache.ts";
import { createTokenSigner } from "../../../command/partner-api/token-signer.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { type ClientTimeouts, listen } from "../../../shared/http/listen.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createRateLimiter } from "../../../shared/rate-limit/limiter.ts";
import { type TestCommand, TOKEN_ISSUER } from "../../support/partner.ts";
import { getTestServers } from "../../support/stack.ts";

/** Serves the command application in this process with replaced options. Accepts the tokens of the given service. */
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
    decide: createUncachedDecider(options.log ?? command.log),
    checkReadiness: async () => ({}),
    limiter,
    waitForReadModels: async () => undefined,
    tokenSigner: await createTokenSigner([command.signingKey as never], TOKEN_ISSUER),
    tokenIssuer: TOKEN_ISSUER,
    secretBox: createSecretBox({ current: "k1", keys: { k1: randomBytes(32).toString("base64") } }),
    webhookKeys: { keys: [] },
    allowsLoopback: true,
    brand: "SERVICE",
    retiredPaths: [],
    isProxyTrusted: false,
    ...options,
  });
  const server = await listen(app.callback(), "127.0.0.1", 0, undefined, clientTimeouts);
  return {
    url: server.url,
    async stop() {
      await server.close();
      limiter.close();
      await pool.end();
    },
  };
}
