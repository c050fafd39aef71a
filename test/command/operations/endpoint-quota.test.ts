import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { MAX_ENDPOINTS, reserveEndpoint } from "../../../command/operations/endpoint-quota.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { operatorContext } from "../../support/partner.ts";
import { testServers } from "../../support/stack.ts";

const NOON = Date.parse("2026-05-04T12:00:00.000Z");

describe("an application's places for endpoints at a clinic", () => {
  let client: EventStoreDBClient;

  before(async () => {
    client = connectEventStore((await testServers()).eventstoreUrl, "test");
  });
  after(() => client.dispose());

  it("are free again after a minute where a registration was cut short", async () => {
    const log = createEventLog(client);
    const owner = { applicationId: randomUUID(), clinicId: randomUUID(), environment: "sandbox" } as const;
    const take = (now: number) =>
      reserveEndpoint(log, { owner, endpointId: randomUUID() }, operatorContext(now)).then(
        () => "taken",
        (error: { code?: string }) => error.code,
      );
    // Nobody registers the endpoints that these places are for.
    for (let n = 0; n < MAX_ENDPOINTS; n += 1) expect(await take(NOON)).to.equal("taken");
    expect(await take(NOON + 59_000)).to.equal("webhook_endpoint_limit_reached");
    expect(await take(NOON + 60_000)).to.equal("taken");
  });
});
