import { randomUUID } from "node:crypto";
import type { EventStoreDBClient } from "@eventstore/db-client";
import { expect } from "chai";
import { toMetadata } from "../../../command/handling/handle.ts";
import type { CatalogEvent } from "../../../shared/domain/events/catalog.ts";
import { EMPTY_STREAM, type EventLog } from "../../../shared/eventstore/log.ts";
import { connectToLog } from "../../support/connections.ts";
import { createTestOperatorContext } from "../../support/partner.ts";
import { createPlainLog } from "../../support/plain-log.ts";
import { getTestServers } from "../../support/stack.ts";

/** Number of events in a stream. A read needs three pages forwards, or 13 backwards. */
const EVENT_COUNT = 1_300;

async function appendAll(log: EventLog, stream: string, events: CatalogEvent[], clinicId: string | null = null) {
  const context = { ...createTestOperatorContext(), clinicId, environment: "production" as const };
  const newEvents = events.map((event) => ({ id: randomUUID(), event, metadata: toMetadata(context) }));
  for (let start = 0; start < newEvents.length; start += 100)
    await log.append(stream, EMPTY_STREAM + BigInt(start), newEvents.slice(start, start + 100));
}

function listReleases(appointmentId: string): CatalogEvent[] {
  const data = { appointmentId, assignmentId: randomUUID() };
  return Array.from({ length: EVENT_COUNT }, () => ({ type: "ResourceReleased", data }));
}

describe("a read of a long stream that nobody waits for", () => {
  let client: EventStoreDBClient;
  let log: EventLog;

  before(async () => {
    client = connectToLog((await getTestServers()).eventstoreUrl);
    log = createPlainLog(client);
  });

  const userId = randomUUID();
  const clinicId = randomUUID();
  const selections = Array.from(
    { length: EVENT_COUNT },
    () => ({ type: "ClinicSelected", data: { userId, clinicId, branchId: null } }) as const,
  );
  const streams = { forward: listReleases(userId), backward: selections };
  for (const [direction, events] of Object.entries(streams))
    it(`a read ${direction} requests no further page after its signal has aborted`, async () => {
      const stream = `${direction === "forward" ? "appointment" : "portalUser"}-${userId}`;
      await appendAll(log, stream, events, clinicId);
      const controller = new AbortController();
      let pageCount = 0;
      const readStream = client.readStream.bind(client);
      const countingClient = Object.assign(Object.create(client) as EventStoreDBClient, {
        readStream: (...args: Parameters<typeof readStream>) => {
          pageCount += 1;
          if (pageCount === 2) controller.abort("nobody waits");
          return readStream(...args);
        },
      });
      const error = await createPlainLog(countingClient)
        .read(stream, undefined, controller.signal)
        .catch((error: unknown) => error);
      expect(error).to.equal("nobody waits");
      expect(pageCount).to.equal(2);
    });
});
