import { expect } from "chai";
import { EventSchemaError, parseStoredEvent } from "../../../../shared/domain/events/stored-event.ts";
import { getCurrentVersion, upcast } from "../../../../shared/domain/events/upcasters.ts";
import { formerEvents } from "../../../support/former-events.ts";

describe("upcasters", () => {
  for (const { type, version, data, metadata, present } of formerEvents) {
    it(`stored bytes of ${type} version ${version} are upcast to the current version`, () => {
      const stored = { type, data: JSON.parse(data), metadata: JSON.parse(metadata) };
      const event = parseStoredEvent(stored);
      expect(event?.data).to.deep.equal(present);
      expect(event?.metadata.schemaVersion).to.equal(version);
      expect(getCurrentVersion(type)).to.equal(version + 1);
    });

    it(`upcasting ${type} does not modify the stored data`, () => {
      const stored = JSON.parse(data);
      upcast(type, version, stored);
      expect(JSON.stringify(stored)).to.equal(data);
    });
  }

  it("an upcaster keeps a value that the former version already had", () => {
    expect(upcast("AppointmentRequested", 1, { sandboxGeneration: 3 })).to.deep.equal({
      sandboxGeneration: 3,
    });
  });

  it("data of the current version is validated without upcasting", () => {
    const { type, data, metadata } = formerEvents[0]!;
    const current = { ...JSON.parse(metadata), schemaVersion: getCurrentVersion(type) };
    expect(() => parseStoredEvent({ type, data: JSON.parse(data), metadata: current })).to.throw(
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
    const newer = { ...JSON.parse(metadata), schemaVersion: getCurrentVersion(type) + 1 };
    expect(() => parseStoredEvent({ type, data: JSON.parse(data), metadata: newer })).to.throw(
      EventSchemaError,
      "AppointmentRequested has schema version 3, but this release supports only up to 2; use the newer release",
    );
  });
});
