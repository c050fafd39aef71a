import { expect } from "chai";
import * as auditors from "../../../../shared/domain/audit/auditor.ts";
import { auditorAggregate } from "../../../../shared/domain/audit/auditor.ts";
import type { AuditorEvent } from "../../../../shared/domain/events/audit.ts";
import type { Erasure } from "../../../../shared/domain/personal-data/erasure.ts";
import { given } from "../../../support/given.ts";
import { someId as auditorId } from "../clinic/ids.ts";

const registered: AuditorEvent = {
  type: "AuditorRegistered",
  data: { auditorId, name: "Ada Berg", secretHash: "0".repeat(64), clinicIds: null, expiresAt: null },
};
const revoked: AuditorEvent = { type: "AuditorRevoked", data: { auditorId, reason: "Closed" } };
const erasure: Erasure = { categories: ["contact", "notes"], cause: "request", reason: "Request 17" };
const erased: AuditorEvent = { type: "AuditorDataErased", data: { auditorId, ...erasure } };

const erase = auditors.eraseAuditor({ auditorId, ...erasure });

describe("an auditor", () => {
  it("an auditor can be erased after the revocation only, and repeating the erasure changes nothing", () => {
    given(auditorAggregate).when(erase, "auditor_not_found");
    given(auditorAggregate, registered).when(erase, "auditor_not_revoked");
    given(auditorAggregate, registered, revoked).whenOnce(erase, erased);
  });

  it("an erasure of contact data removes the name, also of an auditor that was registered in plain text", () => {
    expect(given(auditorAggregate, registered, revoked, erased).state).to.include({ name: "(erased)", revoked: true });
    const notesErased: AuditorEvent = { ...erased, data: { ...erased.data, categories: ["notes"] } } as AuditorEvent;
    expect(given(auditorAggregate, registered, revoked, notesErased).state).to.include({ name: "Ada Berg" });
  });
});
