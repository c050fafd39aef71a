import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { pino } from "pino";
import { AggregateCache } from "../../../command/handling/aggregate-cache.ts";
import { revokeApplication, revokeCredential } from "../../../command/operations/application-operations.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog, type EventLog } from "../../../shared/eventstore/log.ts";
import {
  createApplication,
  exchange,
  operatorContext,
  startTestCommand,
  type TestApplication,
  type TestCommand,
} from "../../support/partner.ts";
import { testServers } from "../../support/stack.ts";
import { serveCommandApp } from "./command-app.ts";

describe("the cost of a refused token exchange", () => {
  let command: TestCommand;
  let client: EventStoreDBClient;
  let cache: AggregateCache;
  let observed: Awaited<ReturnType<typeof serveCommandApp>>;
  /** Names of the operations that the service called on the event log. */
  let logCalls: string[] = [];

  before(async () => {
    command = await startTestCommand();
    client = connectEventStore((await testServers()).eventstoreUrl, "test");
    const log = recordCalls(createEventLog(client));
    cache = new AggregateCache(client, log, pino({ enabled: false }));
    observed = await serveCommandApp(command, { log, decide: cache.decide });
  });
  after(async () => {
    await observed.stop();
    await cache.close();
    await command.stop();
    await client.dispose();
  });

  function recordCalls(log: EventLog): EventLog {
    return new Proxy(log, {
      get(target, name, receiver) {
        const member = Reflect.get(target, name, receiver);
        if (typeof member !== "function") return member;
        return (...args: unknown[]) => {
          logCalls.push(String(name));
          return member.apply(target, args);
        };
      },
    });
  }

  it("each refused token exchange reads the event log once, and all refused exchanges get the same response", async () => {
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
    const exchanges: { logCalls: string[]; response: unknown }[] = [];
    // In the second round, the applications may be cached.
    for (const [application, more] of [...wrong, ...wrong]) {
      logCalls = [];
      const { status, body } = await exchange(observed.url, application, more);
      exchanges.push({ logCalls, response: { status, error: body.error, fields: Object.keys(body) } });
    }
    const [first] = exchanges;
    expect(first?.logCalls).to.deep.equal(["read"]);
    expect(first?.response).to.deep.include({ status: 401, error: "invalid_client" });
    for (const other of exchanges) expect(other).to.deep.equal(first);
  });
});
