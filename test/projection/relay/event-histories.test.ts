import { randomUUID } from "node:crypto";
import { jsonEvent } from "@eventstore/db-client";
import { expect } from "chai";
import { EventHistories } from "../../../projection/relay/event-histories.ts";
import { toMessage } from "../../../projection/relay/to-message.ts";
import { createEventLog } from "../../../shared/eventstore/log.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import { createWorld, type World } from "../webhooks/world.ts";

/** More events than two pages of a read. */
const EVENT_COUNT = 1_200;

describe("an appointment with many events", () => {
  let world: World;
  let stream: string;
  let readCount: number;

  before(async () => {
    world = await createWorld();
    const clinicId = randomUUID();
    const { appointmentId } = await world.requestAppointment(clinicId);
    stream = `appointment-${appointmentId}`;
    const metadata = { ...createStoredMetadata(), environment: "production", clinicId };
    const createChange = (index: number) => {
      const change = { scheduledAt: "2030-06-07T08:09:00.000Z", durationMinutes: 5 + (index % 60) };
      const allocation = { assignmentId: randomUUID(), resourceId: randomUUID() };
      const times = { allocationStart: "2030-06-07T08:00:00.000Z", allocationEnd: "2030-06-07T09:00:00.000Z" };
      return index % 2 === 0
        ? { type: "AppointmentRescheduled", data: { appointmentId, ...change, reason: null } }
        : { type: "ResourceAllocated", data: { appointmentId, ...allocation, ...times } };
    };
    const events = Array.from({ length: EVENT_COUNT - 1 }, (_, index) =>
      jsonEvent({ id: randomUUID(), ...createChange(index), metadata }),
    );
    await world.client.appendToStream(stream, events);
  });
  beforeEach(() => {
    readCount = 0;
  });
  after(() => world.close());

  const createCountingLog = () => {
    const client = Object.create(world.client) as World["client"];
    client.readStream = ((...parameters: Parameters<typeof client.readStream>) => {
      readCount += 1;
      return world.client.readStream(...parameters);
    }) as typeof client.readStream;
    return createEventLog(client);
  };

  it("is read in pages, because the time of each request is limited", async () => {
    const events = await createCountingLog().read(stream);
    expect(events.map(({ revision }) => Number(revision))).to.deep.equal(
      Array.from({ length: EVENT_COUNT }, (_, index) => index),
    );
    expect(readCount).to.equal(3);
    expect(await createCountingLog().read(stream, 700n)).to.deep.equal(events.slice(0, 701));
  });

  it("is read only once for the messages of its events, which contain the state after each event", async () => {
    const log = createCountingLog();
    const events = await log.read(stream);
    const histories = new EventHistories(log);
    const laterEvents = events.slice(EVENT_COUNT / 2);
    readCount = 0;
    const messages = await Promise.all(laterEvents.map((event) => toMessage(histories, event)));
    expect(readCount).to.equal(2);
    for (const [index, message] of messages.entries()) {
      const separateMessage =
        index % 97 === 0 ? await toMessage(new EventHistories(log), laterEvents[index]!) : message;
      expect(message).to.deep.equal(separateMessage);
    }
  });
});
