import type { CatalogEventType } from "./catalog.ts";

/** Converts stored data of an event type to the next schema version. An upcaster is pure, and accepts any object. */
type Upcaster = (data: Readonly<Record<string, unknown>>) => Record<string, unknown>;

/**
 * Upcaster of a version in which personal fields can be encrypted. Releases that only know the former version refuse
 * such events instead of reading them without these fields. Data in plain text still has the former version.
 */
const introduceEncryption: Upcaster = (data) => data;

/**
 * Upcasters by event type. The first upcaster of a type converts version 1 to version 2, the second converts version 2
 * to version 3. A type without upcasters has version 1. An upcaster must never change, because the log keeps the old
 * data.
 */
const upcasters: Partial<Record<CatalogEventType, readonly Upcaster[]>> = {
  AppointmentRequested: [
    // Version 1 contains a sandbox generation only if a sandbox application requested the appointment.
    (data) => ({ sandboxGeneration: 0, ...data }),
    introduceEncryption,
  ],
  AppointmentImported: [introduceEncryption],
  AppointmentCancelled: [introduceEncryption],
  QueueTicketIssued: [introduceEncryption],
  CustomerRegistered: [introduceEncryption],
  CustomerDetailsChanged: [introduceEncryption],
  AnimalRegistered: [introduceEncryption],
  AnimalDetailsChanged: [introduceEncryption],
  StaffMemberHired: [introduceEncryption],
  MembershipRevoked: [introduceEncryption],
  AuditorRegistered: [introduceEncryption],
  AuditorRevoked: [introduceEncryption],
  StreamParked: [
    // In version 1, all consumers skipped a parked stream.
    (data) => ({ passedOverBy: "all", ...data }),
  ],
  AuditAccessed: [
    // Version 1 contains only the query.
    (data) => ({ found: [], clinicIds: [], ...data }),
  ],
  SandboxReset: [
    // The fixture events in a reset have no separate schema versions. In a reset of version 1, they all have version 1.
    (data) => ({
      ...data,
      facts: Array.isArray(data.facts) ? data.facts.map(upcastFact) : data.facts,
    }),
  ],
};

function upcastFact(fact: unknown): unknown {
  if (!isObject(fact) || fact.type !== "AppointmentRequested" || !isObject(fact.data)) return fact;
  return { ...fact, data: { sandboxGeneration: 0, ...fact.data } };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const upcastersByType = new Map<string, readonly Upcaster[]>(Object.entries(upcasters));

/** Returns the current schema version of an event type. */
export function getCurrentVersion(type: string): number {
  return 1 + (upcastersByType.get(type)?.length ?? 0);
}

/**
 * Returns the schema version of new data without encrypted fields. If the current version only introduced encryption,
 * this is the version before, which older releases can read.
 */
export function getPlainVersion(type: string): number {
  const currentVersion = getCurrentVersion(type);
  return upcastersByType.get(type)?.at(-1) === introduceEncryption ? currentVersion - 1 : currentVersion;
}

/**
 * Converts stored data to the current schema version, one version at a time. Data that is not an object is returned
 * unchanged, because the schema refuses it later.
 */
export function upcast(type: string, version: number, data: unknown): unknown {
  const pendingUpcasters = upcastersByType.get(type)?.slice(version - 1) ?? [];
  return pendingUpcasters.reduce((value, upcaster) => (isObject(value) ? upcaster(value) : value), data);
}
