import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { appointmentAggregate } from "../../../../shared/domain/appointment/appointment.ts";
import type { AppointmentEvent } from "../../../../shared/domain/events/appointment.ts";
import type { CatalogEvent } from "../../../../shared/domain/events/catalog.ts";
import { deriveSandboxClinicId } from "../../../../shared/domain/events/ids.ts";
import type { FixtureEvent } from "../../../../shared/domain/events/sandbox.ts";
import { requireValidEvent } from "../../../../shared/domain/events/stored-event.ts";
import { createFixture } from "../../../../shared/domain/partner/sandbox-fixture.ts";
import { fold } from "../../../support/given.ts";

const day = "2026-03-10";

describe("sandbox fixture", () => {
  const applicationId = randomUUID();
  const events = createFixture(applicationId, day);

  const foldAppointments = () => {
    const ids = events.flatMap((event) => (event.type === "AppointmentRequested" ? [event.data.appointmentId] : []));
    return ids.map((id) => {
      const appointmentEvents = events.filter(
        (event) => "appointmentId" in event.data && event.data.appointmentId === id,
      );
      return fold(appointmentAggregate, appointmentEvents as AppointmentEvent[]);
    });
  };

  const resetFields = { applicationId, clinicId: deriveSandboxClinicId(applicationId), generation: 1, day };
  const requireValid = ({ clinicId, ...data }: typeof resetFields & { events: object[] }) =>
    requireValidEvent(
      `sandbox-${applicationId}`,
      { type: "SandboxReset", data: { ...data, clinicId } } as CatalogEvent,
      { clinicId },
    );

  it("the sandbox fixture matches the event catalog and depends only on the application and the day", () => {
    requireValid({ ...resetFields, events });
    expect(createFixture(applicationId, day)).to.deep.equal(events);
  });

  it("the sandbox fixture has the same ids every day, and different ids for each application", () => {
    const listIds = (fixtureEvents: FixtureEvent[]) =>
      fixtureEvents.map(({ data }) => Object.entries(data).filter(([name]) => name.endsWith("Id")));
    expect(listIds(createFixture(applicationId, "2026-03-11"))).to.deep.equal(listIds(events));
    const otherFixtureText = JSON.stringify(createFixture(randomUUID(), day));
    const ownIds = [...new Set(JSON.stringify(events).match(/[0-9a-f]{8}-[0-9a-f-]{27}/g))];
    expect(ownIds.filter((id) => otherFixtureText.includes(id))).to.deep.equal([]);
  });

  it("the sandbox fixture has past and future appointments in several statuses, but no future events", () => {
    const statuses = foldAppointments().map((appointment) => appointment?.status);
    expect(new Set(statuses)).to.deep.equal(new Set(["completed", "no_show", "confirmed", "requested", "cancelled"]));
    const days = foldAppointments().map((appointment) => appointment?.scheduledAt.slice(0, 10) ?? "");
    expect(days.some((date) => date < day)).to.equal(true);
    expect(days.some((date) => date > day)).to.equal(true);
    for (const { at } of events) expect(at <= `${day}T00:00:00.000Z`, at).to.equal(true);
  });

  it("a sandbox reset refuses fixture data with an event type that is not permitted", () => {
    const event = { type: "ClinicClosed", data: { clinicId: randomUUID(), reason: "x" }, at: `${day}T00:00:00.000Z` };
    expect(() => requireValid({ ...resetFields, events: [event] })).to.throw(
      "ClinicClosed is not allowed in fixture data",
    );
  });

  it("a sandbox reset refuses the clinic of another sandbox", () => {
    expect(() => requireValid({ ...resetFields, clinicId: randomUUID(), events })).to.throw(
      "data.clinicId must be the clinic of the application's sandbox",
    );
  });
});
