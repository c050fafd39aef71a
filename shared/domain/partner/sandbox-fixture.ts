import { getEnd, type Transition } from "../appointment/appointment.ts";
import { requestDefaults } from "../events/appointment.ts";
import { deriveSandboxClinicId, deriveSandboxEntityId } from "../events/ids.ts";
import type { FixtureEvent } from "../events/sandbox.ts";
import { OPENING_HOURS } from "../scheduling/free-times.ts";
import { DAY_MS, MINUTE_MS } from "../time/local-time.ts";
import { type Instant, toInstant } from "../time/rfc3339.ts";

const HOUR_MS = 60 * MINUTE_MS;

/** Returns the day (UTC) of a time in milliseconds since 1970, as YYYY-MM-DD. */
export function toUtcDay(now: number): string {
  return toInstant(now).slice(0, 10);
}

/** Returns the branches of a sandbox, starting with the main branch. A reset does not change the branches. */
export function listSandboxBranches(applicationId: string): { id: string; name: string; city: string }[] {
  const createBranch = (name: string) => ({
    id: deriveSandboxEntityId(applicationId, "branch", name),
    name,
    city: "London",
  });
  return [createBranch("Main"), createBranch("Riverside")];
}

/**
 * Returns the fixture data of a sandbox. The data depends only on the application and the day, so that two resets on
 * one day give identical data. No event occurs after the start of the day.
 *
 * @param day YYYY-MM-DD, UTC
 */
export function createFixture(applicationId: string, day: string): FixtureEvent[] {
  const dayStart = Date.parse(`${day}T00:00:00.000Z`);
  const toTime = (days: number, hours: number) => toInstant(dayStart + days * DAY_MS + hours * HOUR_MS);
  const context: FixtureContext = {
    clinicId: deriveSandboxClinicId(applicationId),
    toId: (...names) => deriveSandboxEntityId(applicationId, ...names),
    branchIds: listSandboxBranches(applicationId).map(({ id }) => id),
    registeredAt: toTime(-30, 9),
    toTime,
  };
  return [
    ...[createServices, createOwners, createRooms].flatMap((create) => create(context)),
    ...PLANNED_APPOINTMENTS.flatMap((appointment) => createAppointmentEvents(appointment, context)),
  ];
}

interface FixtureContext {
  clinicId: string;
  toId(...names: string[]): string;
  branchIds: string[];
  /** Time at which services, customers, animals and rooms were registered. */
  registeredAt: Instant;
  toTime(days: number, hours: number): Instant;
}

function createServices({ clinicId, toId, registeredAt: at }: FixtureContext): FixtureEvent[] {
  const createServiceOffered = (name: string, category: string, price: number): FixtureEvent => ({
    type: "ServiceOffered",
    data: { serviceId: toId("service", name), clinicId, name, category, price, currency: "GBP", taxable: true },
    at,
  });
  return [
    createServiceOffered("Consultation", "Consultation", 48),
    createServiceOffered("Vaccination", "Prevention", 62.5),
    createServiceOffered("Dental cleaning", "Dentistry", 240),
  ];
}

const OWNERS = {
  "Ada Example": [
    ["Biscuit", "dog", 12.4],
    ["Clover", "rabbit", 1.9],
  ],
  "Ben Example": [["Misty", "cat", 4.2]],
  "Cleo Example": [["Pepper", "dog", 27]],
} as const;

function createOwners({ clinicId, toId, registeredAt: at }: FixtureContext): FixtureEvent[] {
  return Object.entries(OWNERS).flatMap(([fullName, animals]): FixtureEvent[] => {
    const customerId = toId("customer", fullName);
    const [firstName = ""] = fullName.toLowerCase().split(" ");
    const contact = { phone: null, email: `${firstName}@example.com`, city: "London" };
    const unknownDetails = { breed: null, sex: null, birthDate: null, microchip: null };
    return [
      { type: "CustomerRegistered", data: { customerId, clinicId, fullName, ...contact }, at },
      ...animals.map(([name, species, weightKg]): FixtureEvent => {
        const animalId = toId("animal", name);
        const data = { animalId, clinicId, customerId, name, species, ...unknownDetails, weightKg };
        return { type: "AnimalRegistered", data, at };
      }),
    ];
  });
}

/** Creates one room for each branch, available on weekdays. */
function createRooms({ clinicId, toId, branchIds, registeredAt: at }: FixtureContext): FixtureEvent[] {
  return branchIds.flatMap((branchId, index): FixtureEvent[] => {
    const resourceId = toId("resource", branchId);
    const name = `Room ${index + 1}`;
    const room = { resourceType: "room", name, capacity: 1, timezone: "Europe/London", metadata: {} };
    const validity = { validFrom: null, validUntil: null, ruleType: OPENING_HOURS, recurrence: null };
    return [
      { type: "ResourceAdded", data: { resourceId, clinicId, branchId, ...room }, at },
      ...[1, 2, 3, 4, 5].map((weekday): FixtureEvent => {
        const ruleId = toId("rule", branchId, String(weekday));
        const openHours = { weekday, startsAt: "09:00:00", endsAt: "17:00:00" };
        return { type: "AvailabilityRuleSet", data: { resourceId, ruleId, ...openHours, ...validity }, at };
      }),
    ];
  });
}

interface PlannedAppointment {
  animalName: string;
  branchIndex: 0 | 1;
  /** Days from the fixture's day to the appointment. */
  days: number;
  /** Hour at which the appointment starts (UTC). */
  hour: number;
  reason: string;
  /** Types of the events after the request, in order. */
  eventTypes: Transition[];
}

const CONFIRMED_TRANSITIONS: Transition[] = ["AppointmentConfirmed"];
const VISIT_TRANSITIONS: Transition[] = [
  ...CONFIRMED_TRANSITIONS,
  "AppointmentCheckedIn",
  "ConsultationStarted",
  "AppointmentCompleted",
];
const NO_SHOW_TRANSITIONS: Transition[] = [...CONFIRMED_TRANSITIONS, "AppointmentMarkedNoShow"];
const CANCELLED_TRANSITIONS: Transition[] = ["AppointmentCancelled"];

const PLANNED_APPOINTMENTS: PlannedAppointment[] = [
  { animalName: "Biscuit", branchIndex: 0, days: -2, hour: 10, reason: "Vaccination", eventTypes: VISIT_TRANSITIONS },
  { animalName: "Misty", branchIndex: 1, days: -1, hour: 15, reason: "Check-up", eventTypes: NO_SHOW_TRANSITIONS },
  { animalName: "Pepper", branchIndex: 0, days: 0, hour: 11, reason: "Limping", eventTypes: CONFIRMED_TRANSITIONS },
  { animalName: "Clover", branchIndex: 0, days: 1, hour: 10, reason: "Nail trim", eventTypes: [] },
  { animalName: "Misty", branchIndex: 1, days: 1, hour: 14, reason: "Dental check", eventTypes: CONFIRMED_TRANSITIONS },
  { animalName: "Pepper", branchIndex: 0, days: 2, hour: 9, reason: "Follow-up", eventTypes: CANCELLED_TRANSITIONS },
  { animalName: "Biscuit", branchIndex: 1, days: 6, hour: 16, reason: "Follow-up", eventTypes: [] },
];

/**
 * Creates the events of an appointment. The request is three days before the fixture's day or the appointment's day,
 * whichever is earlier.
 */
function createAppointmentEvents(
  { animalName, branchIndex, days, hour, reason, eventTypes }: PlannedAppointment,
  context: FixtureContext,
): FixtureEvent[] {
  const { clinicId, toId, branchIds, toTime } = context;
  const appointmentId = toId("appointment", animalName, String(days), String(hour));
  const data = {
    ...requestDefaults,
    appointmentId,
    clinicId,
    branchId: branchIds[branchIndex] ?? "",
    animalId: toId("animal", animalName),
    customerId: toId("customer", findOwnerName(animalName)),
    scheduledAt: toTime(days, hour),
    reason,
  };
  const requestDays = Math.min(days, 0) - 3;
  const resourceId = toId("resource", data.branchId);
  const times = { allocationStart: data.scheduledAt, allocationEnd: getEnd(data) };
  const allocation = { appointmentId, assignmentId: toId("assignment", appointmentId), resourceId, ...times };
  const requestedAt = toTime(requestDays, 8);
  // Appointments that were cancelled or missed take no place.
  const isBusy = !eventTypes.includes("AppointmentCancelled") && !eventTypes.includes("AppointmentMarkedNoShow");
  return [
    { type: "AppointmentRequested", data, at: requestedAt },
    ...(isBusy ? [{ type: "ResourceAllocated" as const, data: allocation, at: requestedAt }] : []),
    ...eventTypes.map((type, index): FixtureEvent => {
      // The first event after the request occurs one hour later. The second occurs at the start of the appointment, and
      // the others follow at intervals of 15 minutes.
      const occurredAt = index === 0 ? toTime(requestDays, 9) : toTime(days, hour + (index - 1) / 4);
      if (type === "AppointmentCancelled") return { type, data: { appointmentId, reason: null }, at: occurredAt };
      return { type, data: { appointmentId }, at: occurredAt };
    }),
  ];
}

function findOwnerName(animalName: string): string {
  const ownerEntry = Object.entries(OWNERS).find(([, animals]) => animals.some(([name]) => name === animalName));
  return ownerEntry?.[0] ?? "";
}
