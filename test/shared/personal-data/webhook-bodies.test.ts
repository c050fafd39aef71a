import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { foldAppointment } from "../../../shared/domain/appointment/appointment.ts";
import { type AppointmentEvent, requestDefaults } from "../../../shared/domain/events/appointment.ts";
import type { Actor } from "../../../shared/domain/events/metadata.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { appointmentBody, toWebhookBody } from "../../../shared/partner-api/webhook-body.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";

const [id, customerId] = [randomUUID(), randomUUID()];
const textHash = "5d1c".repeat(16);
const requested: AppointmentEvent = {
  type: "AppointmentRequested",
  data: {
    ...requestDefaults,
    appointmentId: id,
    clinicId: randomUUID(),
    branchId: randomUUID(),
    animalId: randomUUID(),
    customerId,
    scheduledAt: "2026-05-04T08:00:00.000Z",
    reason: "Coughs",
    notes: "Call Ana Kos",
    textHash,
  },
};
const rescheduled: AppointmentEvent = {
  type: "AppointmentRescheduled",
  data: { appointmentId: id, scheduledAt: "2026-05-05T08:00:00.000Z", durationMinutes: 30, reason: null },
};
const cancelled: AppointmentEvent = {
  type: "AppointmentCancelled",
  data: { appointmentId: id, reason: "Ana Kos is ill" },
};

/** Creates the body of the last event, which the actor caused. */
function createBody(events: AppointmentEvent[], actorType: Actor["type"] = "user", environment = "production") {
  const storedMetadata = createStoredMetadata(events[0]);
  const metadata = {
    ...storedMetadata,
    environment,
    actor: { ...storedMetadata.actor, type: actorType },
  };
  const history = events.map((event, index) => ({
    ...{ ...event, id: randomUUID(), stream: `appointment-${id}`, revision: BigInt(index), position: 0n, metadata },
  })) as RecordedEvent<AppointmentEvent>[];
  return appointmentBody.parse(toWebhookBody(foldAppointment(history.slice(0, -1)), history.at(-1)!));
}

describe("the bodies of webhooks", () => {
  it("a webhook about an appointment contains neither its texts nor its customer", () => {
    for (const events of [[requested], [requested, rescheduled], [requested, cancelled]]) {
      const body = JSON.stringify(createBody(events));
      expect(body).to.contain(id);
      expect(body).not.to.match(new RegExp(`Coughs|Ana Kos|is ill|${textHash}|${customerId}`));
    }
  });

  it("a webhook about a change contains the changed fields with their old and new values", () => {
    expect(createBody([requested]).data.change).to.equal(undefined);
    expect(createBody([requested, rescheduled]).data.change?.fields).to.deep.equal({
      scheduledAt: { from: "2026-05-04T08:00:00.000Z", to: "2026-05-05T08:00:00.000Z" },
    });
    expect(createBody([requested, rescheduled, cancelled]).data.change?.fields).to.deep.equal({
      status: { from: "requested", to: "cancelled" },
    });
  });

  it("a change that an application rehearses in its sandbox is caused by the clinic", () => {
    expect(createBody([requested, rescheduled], "application", "sandbox").data.change?.causedBy).to.equal("clinic");
  });

  for (const [actorType, causedBy] of [
    ["user", "clinic"],
    ["operator", "clinic"],
    ["application", "application"],
    ["system", "system"],
  ] as const) {
    it(`a change by the actor type ${actorType} is caused by the ${causedBy}`, () => {
      expect(createBody([requested, rescheduled], actorType).data.change?.causedBy).to.equal(causedBy);
    });
  }
});
