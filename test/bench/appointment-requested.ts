import { randomUUID } from "node:crypto";
import { requestDefaults } from "../../shared/domain/events/appointment.ts";

/** Creates the first events of a new appointment: a request and changes of its duration. */
export function createAppointmentEvents(clinicId: string, count: number) {
  const requestedEvent = createAppointmentRequestedEvent(clinicId);
  const { appointmentId, scheduledAt } = requestedEvent.event.data;
  const changes = Array.from({ length: count - 1 }, (_, n) => ({
    id: randomUUID(),
    metadata: requestedEvent.metadata,
    event: {
      type: "AppointmentRescheduled" as const,
      data: { appointmentId, scheduledAt, durationMinutes: n + 1 },
    },
  }));
  return { stream: requestedEvent.stream, events: [requestedEvent, ...changes] };
}

/** Creates the first event of a new appointment. */
export function createAppointmentRequestedEvent(clinicId: string) {
  const appointmentId = randomUUID();
  const data = {
    ...requestDefaults,
    appointmentId,
    clinicId,
    branchId: randomUUID(),
    animalId: randomUUID(),
    customerId: randomUUID(),
    scheduledAt: "2030-05-01T09:00:00.000Z",
  };
  return {
    id: randomUUID(),
    stream: `appointment-${appointmentId}`,
    event: { type: "AppointmentRequested", data } as const,
    metadata: {
      $correlationId: randomUUID(),
      $causationId: randomUUID(),
      schemaVersion: 1,
      actor: { type: "operator" as const, id: "bench" },
      clinicId,
      environment: "production" as const,
      occurredAt: new Date().toISOString(),
    },
  };
}
