import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { pino } from "pino";
import { AggregateCache } from "../../../command/handling/aggregate-cache.ts";
import { revokeApplication, revokeCredential } from "../../../command/operations/application-operations.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { connectToLog } from "../../support/connections.ts";
import {
  createApplication,
  createTestOperatorContext,
  sendTokenRequest,
  startTestCommandService,
  type TestApplication,
} from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { releaseLater, useResource } from "../../support/resources.ts";
import { getTestServers } from "../../support/stack.ts";
import { serveCommandApp } from "./command-app.ts";

describe("the cost of a refused token exchange", () => {
  const command = useResource(startTestCommandService);
  let observedApp: Awaited<ReturnType<typeof serveCommandApp>>;
  /** Names of the operations that the service called on the event log. */
  let logCalls: string[] = [];

  before(async () => {
    const client = connectToLog((await getTestServers()).eventstoreUrl);
    const log = recordCalls(createPlainLog(client));
    const cache = new AggregateCache(client, log, pino({ enabled: false }));
    releaseLater(() => cache.close());
    observedApp = await serveCommandApp(command, { log, decide: cache.decide });
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
    const knownApplication = await createApplication(command.log);
    const applicationWithoutCredential = await createApplication(command.log);
    await revokeCredential(command.log, applicationWithoutCredential, createTestOperatorContext());
    const revokedApplication = await createApplication(command.log);
    await revokeApplication(command.log, { ...revokedApplication, reason: null }, createTestOperatorContext());
    const sandboxApplication = await createApplication(command.log, "sandbox");
    const wrongRequests: [TestApplication, Record<string, unknown>][] = [
      [knownApplication, { client_id: randomUUID() }],
      [knownApplication, { client_secret: "cs_wrong" }],
      [applicationWithoutCredential, {}],
      [revokedApplication, {}],
      [{ ...sandboxApplication, environment: "production" }, {}],
    ];
    const exchanges: { logCalls: string[]; response: unknown }[] = [];
    // In the second round, the applications may be cached.
    for (const [application, overrides] of [...wrongRequests, ...wrongRequests]) {
      logCalls = [];
      const { status, body } = await sendTokenRequest(observedApp.url, application, overrides);
      exchanges.push({ logCalls, response: { status, error: body.error, fields: Object.keys(body) } });
    }
    const [firstExchange] = exchanges;
    expect(firstExchange?.logCalls).to.deep.equal(["read"]);
    expect(firstExchange?.response).to.deep.include({ status: 401, error: "invalid_client" });
    for (const exchange of exchanges) expect(exchange).to.deep.equal(firstExchange);
  });
});
