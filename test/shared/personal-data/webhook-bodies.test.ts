import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { type AppointmentEvent, requestDefaults } from "../../../shared/domain/events/appointment.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { toWebhookBody } from "../../../shared/partner-api/webhook-body.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";

describe("the bodies of webhooks", () => {
  it("a webhook about an appointment contains neither its texts nor its customer", () => {
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
    const cancelled: AppointmentEvent = {
      type: "AppointmentCancelled",
      data: { appointmentId: id, reason: "Ana Kos is ill" },
    };
    const metadata = { ...createStoredMetadata(), environment: "production" };
    const history = [requested, cancelled].map((event, index) => ({
      ...{ ...event, id: randomUUID(), stream: `appointment-${id}`, revision: BigInt(index), position: 0n, metadata },
    })) as RecordedEvent<AppointmentEvent>[];
    for (const length of [1, 2]) {
      const body = JSON.stringify(toWebhookBody(history.slice(0, length)));
      expect(body).to.contain(id);
      expect(body).not.to.match(new RegExp(`Coughs|Ana Kos|is ill|${textHash}|${customerId}`));
    }
  });
});
