import { randomBytes, randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import { createCommandApp } from "../../../command/app.ts";
import { createTokenIssuer } from "../../../command/partner-api/token-issuer.ts";
import { createSecretBox } from "../../../shared/auth/secret-box.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { type Listening, listen } from "../../../shared/http/listen.ts";
import { eventually } from "../../support/eventually.ts";
import { type MutableProxy, startMutableProxy } from "../../support/mutable-proxy.ts";
import {
  ask,
  createPartnerWorld,
  type PartnerWorld,
  startTestCommand,
  type TestCommand,
  TOKEN_ISSUER,
} from "../../support/partner.ts";
import { testServers } from "../../support/stack.ts";

/** Below what one exchange with the log may take (4 s), of which a create makes five. Milliseconds. */
const EXCHANGE = 400;
const ANSWER_WITHIN = 1_000;

describe("a command while every exchange with the log is slow, as on a busy machine", function () {
  this.timeout(60_000);
  let command: TestCommand;
  let proxy: MutableProxy;
  let slow: Listening;
  let world: PartnerWorld;
  let client: ReturnType<typeof connectEventStore>;

  before(async () => {
    command = await startTestCommand();
    world = await createPartnerWorld(command);
    const { eventstoreUrl } = await testServers();
    proxy = await startMutableProxy(eventstoreUrl.replace(/^esdb:/, "http:"));
    client = connectEventStore(proxy.url.replace(/^http:/, "esdb:"), "test");
    const app = createCommandApp({
      ...{ logger: pino({ enabled: false }), log: createEventLog(client), readiness: async () => ({}) },
      limiter: { count: async () => ({ used: 1, endsAt: Date.now(), endsIn: 1 }), close: () => undefined },
      ...{ awaitReads: async () => undefined, tokenIssuer: TOKEN_ISSUER, allowLoopback: true },
      issuer: await createTokenIssuer([command.signingKey as never], TOKEN_ISSUER),
      secretBox: createSecretBox({ current: "k1", keys: { k1: randomBytes(32).toString("base64") } }),
      ...{ brand: "SERVICE", retiredPaths: [], trustProxy: false, answerWithin: ANSWER_WITHIN },
    });
    slow = await listen(app.callback(), "127.0.0.1", 0);
  });
  after(async () => {
    await slow.close();
    await client.dispose();
    await proxy.close();
    await command.stop();
  });

  const create = (url: string, key: string) =>
    ask(
      "POST",
      `${url}/production/v1/appointments`,
      { ...world.headers, "Idempotency-Key": key },
      { branchId: world.branchId, animalId: world.animalId, scheduledAt: "2099-05-04T10:00:00Z" },
    );

  it("is answered in time with 503, and the same key gives the one appointment afterwards", async () => {
    await eventually("it answers in time while the log is quick", async () => {
      return (await create(slow.url, randomUUID())).status === 201;
    });
    proxy.delay(EXCHANGE);
    const keys = Array.from({ length: 56 }, () => randomUUID());
    const answers = await Promise.all(keys.map((key) => create(slow.url, key)));
    proxy.delay(0);
    for (const { status, body } of answers) {
      expect([status, body.error]).to.deep.equal([503, "event_log_unavailable"]);
    }
    const repeated = await Promise.all(keys.map((key) => create(command.url, key)));
    const again = await Promise.all(keys.map((key) => create(command.url, key)));
    expect(repeated.map(({ status }) => status)).to.deep.equal(Array(56).fill(201));
    expect(again.map(({ text }) => text)).to.deep.equal(repeated.map(({ text }) => text));
  });
});
