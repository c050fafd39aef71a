import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { MAX_ENDPOINTS, reserveEndpointPlace } from "../../../command/operations/endpoint-quota.ts";
import { connectEventStore } from "../../../shared/eventstore/connect.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { getTestServers } from "../../support/stack.ts";

const NOON_MS = Date.parse("2026-05-04T12:00:00.000Z");

describe("the maximum number of endpoints of an application at a clinic", () => {
  let client: EventStoreDBClient;

  before(async () => {
    client = connectEventStore((await getTestServers()).eventstoreUrl, "test");
  });
  after(() => client.dispose());

  it("an interrupted endpoint registration counts towards the maximum number of endpoints for only one minute", async () => {
    const log = createEventLog(client);
    const owner = { applicationId: randomUUID(), clinicId: randomUUID(), environment: "sandbox" } as const;
    const reservePlace = (now: number) =>
      reserveEndpointPlace(log, { owner, endpointId: randomUUID() }, createTestOperatorContext(now)).then(
        () => "reserved",
        (error: { code?: string }) => error.code,
      );
    // Each registration stops halfway: it reserves a place in the endpoint quota, but never registers the endpoint.
    for (let n = 0; n < MAX_ENDPOINTS; n += 1) expect(await reservePlace(NOON_MS)).to.equal("reserved");
    expect(await reservePlace(NOON_MS + 59_000)).to.equal("webhook_endpoint_limit_reached");
    expect(await reservePlace(NOON_MS + 60_000)).to.equal("reserved");
  });
});
