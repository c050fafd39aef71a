import { expect } from "chai";
import { EventSchemaError, parseStoredEvent } from "../../../../shared/domain/events/stored-event.ts";
import { currentVersion, upcast } from "../../../../shared/domain/events/upcasters.ts";
import { formerEvents } from "../../../support/former-events.ts";

describe("upcasters", () => {
  for (const { type, version, data, metadata, present } of formerEvents) {
    it(`read the bytes of ${type} version ${version}`, () => {
      const stored = { type, data: JSON.parse(data), metadata: JSON.parse(metadata) };
      const event = parseStoredEvent(stored);
      expect(event?.data).to.deep.equal(present);
      expect(event?.metadata.schemaVersion).to.equal(version);
      expect(currentVersion(type)).to.equal(version + 1);
    });

    it(`leave the stored data of ${type} as they were given`, () => {
      const stored = JSON.parse(data);
      upcast(type, version, stored);
      expect(JSON.stringify(stored)).to.equal(data);
    });
  }

  it("keep what a former version did say", () => {
    expect(upcast("AppointmentRequested", 1, { sandboxGeneration: 3 })).to.deep.equal({
      sandboxGeneration: 3,
    });
  });

  it("leave data of the current version to its schema", () => {
    const { type, data, metadata } = formerEvents[0]!;
    const current = { ...JSON.parse(metadata), schemaVersion: currentVersion(type) };
    expect(() => parseStoredEvent({ type, data: JSON.parse(data), metadata: current })).to.throw(
      EventSchemaError,
      "data.sandboxGeneration",
    );
  });

  it("leave data that are no object to the schema", () => {
    for (const data of [null, "text", [1], undefined]) {
      expect(upcast("AppointmentRequested", 1, data)).to.equal(data);
    }
  });

  it("do not read a version that is newer than they know", () => {
    const { type, data, metadata } = formerEvents[0]!;
    const newer = { ...JSON.parse(metadata), schemaVersion: currentVersion(type) + 1 };
    expect(() => parseStoredEvent({ type, data: JSON.parse(data), metadata: newer })).to.throw(
      EventSchemaError,
      "AppointmentRequested has schema version 3, but this release supports only up to 2; use the newer release",
    );
  });
});
