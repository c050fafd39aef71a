import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { foldAppointment, type TimedAppointmentEvent } from "../../../../shared/domain/appointment/appointment.ts";
import type { FixtureFact } from "../../../../shared/domain/events/sandbox.ts";
import { requireValidEvent } from "../../../../shared/domain/events/stored-event.ts";
import { createFixture } from "../../../../shared/domain/partner/sandbox-fixture.ts";

const day = "2026-03-10";

describe("sandbox fixture", () => {
  const applicationId = randomUUID();
  const facts = createFixture(applicationId, day);

  const foldAppointments = () => {
    const ids = facts.flatMap((fact) => (fact.type === "AppointmentRequested" ? [fact.data.appointmentId] : []));
    return ids.map((id) => {
      const appointmentFacts = facts.filter((fact) => "appointmentId" in fact.data && fact.data.appointmentId === id);
      return foldAppointment(
        appointmentFacts.map((fact) => ({ ...fact, metadata: { occurredAt: fact.at } }) as TimedAppointmentEvent),
      );
    });
  };

  it("the sandbox fixture matches the event catalog and depends only on the application and the day", () => {
    const resetFields = { applicationId, clinicId: randomUUID(), generation: 1, day };
    requireValidEvent({ type: "SandboxReset", data: { ...resetFields, facts } });
    expect(createFixture(applicationId, day)).to.deep.equal(facts);
  });

  it("the sandbox fixture has the same ids every day, and different ids for each application", () => {
    const listIds = (fixtureFacts: FixtureFact[]) =>
      fixtureFacts.map(({ data }) => Object.entries(data).filter(([name]) => name.endsWith("Id")));
    expect(listIds(createFixture(applicationId, "2026-03-11"))).to.deep.equal(listIds(facts));
    const otherFixtureText = JSON.stringify(createFixture(randomUUID(), day));
    const ownIds = [...new Set(JSON.stringify(facts).match(/[0-9a-f]{8}-[0-9a-f-]{27}/g))];
    expect(ownIds.filter((id) => otherFixtureText.includes(id))).to.deep.equal([]);
  });

  it("the sandbox fixture has past and future appointments in several statuses, but no future events", () => {
    const statuses = foldAppointments().map((appointment) => appointment?.status);
    expect(new Set(statuses)).to.deep.equal(new Set(["completed", "no_show", "confirmed", "requested", "cancelled"]));
    const days = foldAppointments().map((appointment) => appointment?.scheduledAt.slice(0, 10) ?? "");
    expect(days.some((date) => date < day)).to.equal(true);
    expect(days.some((date) => date > day)).to.equal(true);
    for (const { at } of facts) expect(at <= `${day}T00:00:00.000Z`, at).to.equal(true);
  });

  it("a sandbox reset refuses fixture data with an event type that is not permitted", () => {
    const fact = {
      type: "ClinicClosed",
      data: { clinicId: randomUUID(), reason: "x" },
      at: `${day}T00:00:00.000Z`,
    };
    const data = { applicationId, clinicId: randomUUID(), generation: 1, day, facts: [fact] };
    expect(() => requireValidEvent({ type: "SandboxReset", data })).to.throw(
      "ClinicClosed is not allowed in fixture data",
    );
  });
});
