import { expect } from "chai";
import { EventSchemaError, parseStoredEvent } from "../../../../shared/domain/events/stored-event.ts";
import { getCurrentVersion, upcast } from "../../../../shared/domain/events/upcasters.ts";
import { formerEvents } from "../../../support/former-events.ts";

describe("upcasters", () => {
  for (const { type, version, data, metadata, currentData: expectedData } of formerEvents) {
    it(`stored bytes of ${type} version ${version} are upcast to the current version`, () => {
      const storedEvent = { type, data: JSON.parse(data), metadata: JSON.parse(metadata) };
      const event = parseStoredEvent(storedEvent);
      expect(event?.data).to.deep.equal(expectedData);
      expect(event?.metadata.schemaVersion).to.equal(version);
      expect(getCurrentVersion(type)).to.equal(version + 1);
    });

    it(`upcasting ${type} does not modify the stored data`, () => {
      const storedData = JSON.parse(data);
      upcast(type, version, storedData);
      expect(JSON.stringify(storedData)).to.equal(data);
    });
  }

  it("an upcaster keeps a value that the former version already had", () => {
    expect(upcast("AppointmentRequested", 1, { sandboxGeneration: 3 })).to.deep.equal({
      sandboxGeneration: 3,
    });
  });

  it("data of the current version is validated without upcasting", () => {
    const { type, data, metadata } = formerEvents[0]!;
    const currentMetadata = { ...JSON.parse(metadata), schemaVersion: getCurrentVersion(type) };
    expect(() => parseStoredEvent({ type, data: JSON.parse(data), metadata: currentMetadata })).to.throw(
      EventSchemaError,
      "data.sandboxGeneration",
    );
  });

  it("upcasting returns data that is not an object unchanged", () => {
    for (const data of [null, "text", [1], undefined]) {
      expect(upcast("AppointmentRequested", 1, data)).to.equal(data);
    }
  });

  it("an event with a newer schema version than this release supports is refused", () => {
    const { type, data, metadata } = formerEvents[0]!;
    const newerMetadata = { ...JSON.parse(metadata), schemaVersion: getCurrentVersion(type) + 1 };
    expect(() => parseStoredEvent({ type, data: JSON.parse(data), metadata: newerMetadata })).to.throw(
      EventSchemaError,
      "AppointmentRequested has schema version 3, but this release supports only up to 2; use the newer release",
    );
  });
});
