import { expect } from "chai";
import { EventSchemaError, parseStoredEvent } from "../../../../shared/domain/events/stored-event.ts";
import { getCurrentVersion, upcast, upcasters } from "../../../../shared/domain/events/upcasters.ts";
import { createStoredMetadata } from "../../../support/stored-metadata.ts";

const currentData = { branchId: "33333333-3333-4333-8333-333333333333", name: "Center", city: null, isMain: true };
const clinicId = "11111111-1111-4111-8111-111111111111";

/** Stored event of a fictitious version 1. Its branch has a `title` instead of a name, and no city. */
const formerEvent = {
  streamId: `clinic-${clinicId}`,
  type: "BranchOpened" as const,
  data: { clinicId, branchId: currentData.branchId, title: "Center", isMain: true },
  metadata: { ...createStoredMetadata(), clinicId, schemaVersion: 1 },
};

describe("upcasters", () => {
  before(() => {
    upcasters.set("BranchOpened", [
      ({ title, ...data }) => ({ ...data, name: title }),
      (data) => ({ city: null, ...data }),
    ]);
  });
  after(() => {
    upcasters.delete("BranchOpened");
  });

  it("an event of a former schema version is read like a current event, and the stored data is not changed", () => {
    const storedText = JSON.stringify(formerEvent.data);
    expect(getCurrentVersion("BranchOpened")).to.equal(3);
    expect(parseStoredEvent(formerEvent).data).to.deep.equal({ clinicId, ...currentData });
    expect(JSON.stringify(formerEvent.data)).to.equal(storedText);
  });

  it("only the upcasters of later versions are applied", () => {
    expect(upcast("BranchOpened", 2, { name: "Center" })).to.deep.equal({ city: null, name: "Center" });
    const metadata = { ...formerEvent.metadata, schemaVersion: 3 };
    expect(() => parseStoredEvent({ ...formerEvent, metadata })).to.throw(EventSchemaError, "data.name");
  });

  it("upcasting returns data that is not an object unchanged", () => {
    for (const data of [null, "text", [1], undefined]) expect(upcast("BranchOpened", 1, data)).to.equal(data);
  });

  it("an event with a newer schema version than this release supports is refused", () => {
    const metadata = { ...formerEvent.metadata, schemaVersion: 4 };
    expect(() => parseStoredEvent({ ...formerEvent, metadata })).to.throw(
      EventSchemaError,
      "BranchOpened has schema version 4, but this release supports only up to 3; use the newer release",
    );
  });

  it("a type without upcasters has version 1", () => {
    expect(getCurrentVersion("ClinicRegistered")).to.equal(1);
  });
});
