import { expect } from "chai";
import type { z } from "zod";
import { SECRET_FIELDS } from "../../../../command/audit/log/audit-event.ts";
import { isLeaf } from "../../../../command/audit/tree/leaves.ts";
import { categories } from "../../../../shared/domain/events/catalog.ts";
import type { Category } from "../../../../shared/domain/events/category.ts";
import { findDeclaration } from "../../../../shared/domain/personal-data/declaration.ts";
import { historyEvents, newerMetadataEvents } from "../export/vector-events.ts";

/** Properties of a zod definition that contain nested schemas. */
interface Definition {
  shape?: Record<string, z.ZodType>;
  innerType?: z.ZodType;
  element?: z.ZodType;
}

/** Lists the fields that hold secrets, detected by name or by the declared reason why they are not personal data. */
function listSecretFields(schema: z.ZodType, name = ""): string[] {
  const declaration = findDeclaration(schema);
  const reason = declaration?.kind === "notPersonal" ? declaration.reason : "";
  if (/secret/.test(reason)) return [name];
  const { shape = {}, innerType, element } = schema.def as Definition;
  return [
    ...Object.entries(shape).flatMap(([member, field]) =>
      /(secret|encrypted|cipher|password|token)(?!Ids?$)/i.test(member) ? [member] : listSecretFields(field, member),
    ),
    ...[innerType, element].flatMap((part) => (part ? listSecretFields(part, name) : [])),
  ];
}

describe("the form of exported events and leaves", () => {
  it("it does not depend on the metadata that this release knows", () => {
    const [newer, malformed, list, text, bytes, none] = newerMetadataEvents;
    expect(newer).to.deep.include({
      actor: { type: "robot", id: "r2", model: "🤖", note: "night shift" },
      schemaVersion: 2.5,
      metadata: { reviewedBy: { id: "grace", encryptedValue: "(withheld)" }, $tenant: null },
    });
    expect(malformed).to.deep.include({
      actor: null,
      clinicId: null,
      correlationId: null,
      occurredAt: null,
      schemaVersion: null,
      environment: "staging",
    });
    expect(Object.keys(malformed?.metadata as object).sort()).to.deep.equal(
      ["$correlationId", "__proto__", "actor", "clinicId", "occurredAt", "schemaVersion"].sort(),
    );
    expect([list, text, bytes].map((event) => event?.metadata)).to.deep.equal([[1, "2"], "only text", "AP8="]);
    expect(none).not.to.have.property("metadata");
    expect(historyEvents[0]).not.to.have.property("metadata");
  });

  it("all events of the catalog are leaves, and events of later categories because of their metadata", () => {
    const [event] = historyEvents;
    const isLeafOf = (stream: string, fields: object = {}) => isLeaf({ ...event!, ...fields, stream });
    for (const { name } of categories) expect(isLeafOf(`${name}-1`), name).to.equal(true);
    for (const name of ["clinic", "queueTicket", "quarantine"])
      expect(isLeafOf(`${name}-1`, { actor: null, schemaVersion: null }), name).to.equal(true);
    expect(isLeafOf("laboratory-1")).to.equal(true);
    for (const member of ["actor", "occurredAt", "correlationId", "causationId", "schemaVersion"])
      expect(isLeafOf("laboratory-1", { [member]: null }), member).to.equal(false);
    expect(isLeafOf("clinic", { actor: null })).to.equal(false);
  });

  it("every secret in the catalog is in a field that is withheld", () => {
    const secretFields = new Set(
      (categories as readonly Category[]).flatMap(({ events }) =>
        Object.values(events).flatMap((schema) => listSecretFields(schema)),
      ),
    );
    expect([...secretFields].sort()).to.deep.equal([...SECRET_FIELDS].sort());
  });
});
