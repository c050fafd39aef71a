import { type Animal, toRegisteredAnimal } from "../clinic/animal.ts";
import type { SandboxEvent } from "../events/sandbox.ts";
import type { Instant } from "../time/rfc3339.ts";

/** State of an application's sandbox since its last reset. */
export type Sandbox = SandboxEvent["data"] & {
  resetAt: Instant;
  /** Revision of the last reset event. */
  revision: bigint;
  position: bigint;
};

/** Returns true if the appointment comes from the sandbox's current fixture data, so it has no stream. */
export function isFixtureAppointment({ events }: Sandbox, appointmentId: string): boolean {
  return events.some(({ type, data }) => type === "AppointmentRequested" && data.appointmentId === appointmentId);
}

/** Finds an animal in the sandbox's current fixture data. */
export function findFixtureAnimal({ events }: Sandbox, animalId: string): Animal | undefined {
  const registrationEvent = events.find(
    (event) => event.type === "AnimalRegistered" && event.data.animalId === animalId,
  );
  return registrationEvent?.type === "AnimalRegistered" ? toRegisteredAnimal(registrationEvent.data) : undefined;
}
