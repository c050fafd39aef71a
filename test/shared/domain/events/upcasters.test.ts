import { expect } from "chai";
import { categories } from "../../../../shared/domain/events/catalog.ts";
import type { Category } from "../../../../shared/domain/events/category.ts";
import { EventSchemaError, parseStoredEvent } from "../../../../shared/domain/events/stored-event.ts";
import { getCurrentVersion, getPlainVersion, upcast } from "../../../../shared/domain/events/upcasters.ts";
import { findPersonalFields } from "../../../../shared/domain/personal-data/personal-fields.ts";
import { formerEvents } from "../../../support/former-events.ts";

describe("upcasters", () => {
  for (const { type, version, data, metadata, currentData: expectedData } of formerEvents) {
    it(`stored bytes of ${type} version ${version} are upcast to the current version`, () => {
      const storedEvent = { type, data: JSON.parse(data), metadata: JSON.parse(metadata) };
      const event = parseStoredEvent(storedEvent);
      expect(event?.data).to.deep.equal(expectedData);
      expect(event?.metadata.schemaVersion).to.equal(version);
      expect(getCurrentVersion(type)).to.be.above(version);
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

  it("every type with personal data has a version from which on it can be encrypted, and keeps its plain version", () => {
    const types = (categories as readonly Category[]).flatMap(({ events }) => Object.keys(events));
    const encryptedTypes = types.filter((type) => getPlainVersion(type) < getCurrentVersion(type));
    expect(encryptedTypes).to.have.members(types.filter((type) => findPersonalFields(type)));
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
      "AppointmentRequested has schema version 4, but this release supports only up to 3; use the newer release",
    );
  });
});
