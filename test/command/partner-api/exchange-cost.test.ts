import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import { createCommandApp } from "../../../command/app.ts";
import { revokeApplication, revokeCredential } from "../../../command/operations/application-operations.ts";
import { createTokenSigner } from "../../../command/partner-api/token-signer.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { type HttpServer, listen } from "../../../shared/http/listen.ts";
import { createPool } from "../../../shared/postgres/pool.ts";
import { createRateLimiter, type RateLimiter } from "../../../shared/rate-limit/limiter.ts";
import {
  createApplication,
  exchange,
  operatorContext,
  startTestCommand,
  type TestApplication,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import { testServers } from "../../support/stack.ts";

const logger = pino({ enabled: false });

describe("what a refused exchange costs", () => {
  let command: TestCommand;
  let observed: HttpServer;
  let pool: ReturnType<typeof createPool>;
  /** What the service asked the log for. */
  let limiter: RateLimiter;
  let asked: string[] = [];

  before(async () => {
    command = await startTestCommand();
    const { databaseUrls } = await testServers();
    pool = createPool({
      url: databaseUrls.command,
      applicationName: "test",
      size: 2,
      statementTimeout: 1_000,
      logger,
    });
    limiter = createRateLimiter(pool, logger);
    const app = createCommandApp({
      logger,
      log: watched(command.log),
      readiness: async () => ({}),
      limiter,
      waitForReadModels: async () => undefined,
      tokenSigner: await createTokenSigner([command.signingKey as never], TOKEN_ISSUER),
      tokenIssuer: TOKEN_ISSUER,
      secretBox: createSecretBox({ current: "k1", keys: { k1: randomBytes(32).toString("base64") } }),
      allowLoopback: true,
      brand: "SERVICE",
      retiredPaths: [],
      trustProxy: false,
    });
    observed = await listen(app.callback(), "127.0.0.1", 0);
  });
  after(async () => {
    await observed.close();
    limiter.close();
    await pool.end();
    await command.stop();
  });

  function watched(log: EventLog): EventLog {
    return new Proxy(log, {
      get(target, name, receiver) {
        const member = Reflect.get(target, name, receiver);
        if (typeof member !== "function") return member;
        return (...given: unknown[]) => {
          asked.push(String(name));
          return member.apply(target, given);
        };
      },
    });
  }

  it("is the same for an unknown id as for a wrong secret, a revoked one and the other environment", async () => {
    const known = await createApplication(command.log);
    const withoutCredential = await createApplication(command.log);
    await revokeCredential(command.log, withoutCredential, operatorContext());
    const revoked = await createApplication(command.log);
    await revokeApplication(command.log, { ...revoked, reason: null }, operatorContext());
    const elsewhere = await createApplication(command.log, "sandbox");
    const wrong: [TestApplication, Record<string, unknown>][] = [
      [known, { client_id: randomUUID() }],
      [known, { client_secret: "cs_wrong" }],
      [withoutCredential, {}],
      [revoked, {}],
      [{ ...elsewhere, environment: "production" }, {}],
    ];
    const seen: { asked: string[]; answer: unknown }[] = [];
    for (const [application, more] of wrong) {
      asked = [];
      const { status, body } = await exchange(observed.url, application, more);
      seen.push({ asked, answer: { status, error: body.error, fields: Object.keys(body) } });
    }
    const [first] = seen;
    expect(first?.asked).to.deep.equal(["read"]);
    expect(first?.answer).to.deep.include({ status: 401, error: "invalid_client" });
    for (const other of seen) expect(other).to.deep.equal(first);
  });
});
