import { expect } from "chai";
import { rebuild } from "../../../projection/engine/rebuild.ts";
import { readModels } from "../../../projection/read-models/all.ts";
import { ProjectionError } from "../../../projection/roles/failure.ts";
import { getCurrentVersion } from "../../../shared/domain/events/upcasters.ts";
import { createEventLog, EMPTY_STREAM } from "../../../shared/eventstore/log.ts";
import { READ_MODEL_SCHEMA } from "../../../shared/postgres/read-model-schema.ts";
import { formerEvents } from "../../support/former-events.ts";
import { createEngineWorld, type EngineWorld, logger } from "../engine-world.ts";

const neverAbortedSignal = new AbortController().signal;

describe("a log with events of earlier schema versions", () => {
  let world: EngineWorld;

  beforeEach(async () => {
    world = await createEngineWorld();
  });

  afterEach(() => world.close());

  const rebuildModels = () =>
    rebuild({ ...world, models: readModels, logger, onProgress: () => undefined }, neverAbortedSignal);

  it("events of earlier schema versions are projected and read like current events", async () => {
    for (const { type, stream, data, metadata, currentData } of formerEvents) {
      await world.append(stream, { type, data: JSON.parse(data), metadata: JSON.parse(metadata) });
      for await (const { event } of world.client.readStream(stream)) {
        // The stored bytes must be exactly those that the earlier release wrote.
        expect([JSON.stringify(event?.data), JSON.stringify(event?.metadata)]).to.deep.equal([data, metadata]);
      }
      const [recordedEvent] = await world.log.read(stream);
      expect(recordedEvent?.data).to.deep.equal(currentData);
    }
    await rebuildModels();
    const { rows } = await world.pool.query(
      `SELECT appointment_id, status FROM ${READ_MODEL_SCHEMA}.appointment ORDER BY 1`,
    );
    expect(rows).to.deep.equal([
      { appointment_id: "22222222-2222-4222-8222-222222222222", status: "requested" },
      { appointment_id: "22222222-2222-4222-8222-22222222222a", status: "requested" },
      { appointment_id: "77777777-7777-4777-8777-777777777777", status: "requested" },
    ]);
  });

  it("reading an event of a newer release fails with a clear error", async () => {
    const { type, stream, data, metadata } = formerEvents[0]!;
    const newerMetadata = { ...JSON.parse(metadata), schemaVersion: getCurrentVersion(type) + 1 };
    await world.append(stream, { type, data: JSON.parse(data), metadata: newerMetadata });
    const error = await rebuildModels().then(
      () => undefined,
      (error: Error) => error,
    );
    expect(error).to.be.instanceOf(ProjectionError);
    expect(error?.message).to.match(
      /stream appointment-2222.*, revision 0: AppointmentRequested has schema version 4, but this release supports only up to 3/,
    );
  });

  it("appended events have the current schema version if they are encrypted, and else the version before", async () => {
    const { stream, currentData, metadata } = formerEvents[0]!;
    const event = { type: "AppointmentRequested" as const, data: currentData as never };
    const { schemaVersion: _, ...otherMetadata } = JSON.parse(metadata);
    const person = { type: "appointment", id: crypto.randomUUID() } as const;
    const newEvent = { id: crypto.randomUUID(), event, metadata: otherMetadata, person };
    await world.log.append(stream, EMPTY_STREAM, [newEvent]);
    const plainLog = createEventLog(world.client, { encryption: "off" });
    await plainLog.append(stream, 0n, [{ ...newEvent, id: crypto.randomUUID() }]);
    const events = await world.log.read(stream);
    expect(events.map(({ metadata: { schemaVersion } }) => schemaVersion)).to.deep.equal([3, 2]);
    expect(events.map(({ data }) => data)).to.deep.equal([currentData, currentData]);
  });
});
