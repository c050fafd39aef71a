import type { CatalogEventType } from "./catalog.ts";

/** Converts stored data of an event type to the next schema version. Pure; makes no assumptions about the data. */
type Upcast = (data: Readonly<Record<string, unknown>>) => Record<string, unknown>;

/**
 * Upcasters by event type: the first converts version 1 to 2, and so on. A type that is missing here has version 1.
 * Upcasters never change, because the log keeps the old data.
 */
const upcasters: Partial<Record<CatalogEventType, readonly Upcast[]>> = {
  AppointmentRequested: [
    // Version 1 had no generation, unless a sandbox application requested the appointment.
    (data) => ({ sandboxGeneration: 0, ...data }),
  ],
  StreamParked: [
    // In version 1, parking always applied to all consumers.
    (data) => ({ passedOverBy: "all", ...data }),
  ],
  SandboxReset: [
    // The facts of a reset have no version: in version 1, all of them had version 1.
    (data) => ({
      ...data,
      facts: Array.isArray(data.facts) ? data.facts.map(firstFactToSecond) : data.facts,
    }),
  ],
};

function firstFactToSecond(fact: unknown): unknown {
  if (!isObject(fact) || fact.type !== "AppointmentRequested" || !isObject(fact.data)) return fact;
  return { ...fact, data: { sandboxGeneration: 0, ...fact.data } };
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const steps = new Map<string, readonly Upcast[]>(Object.entries(upcasters));

/** Returns the current schema version of an event type. */
export function currentVersion(type: string): number {
  return 1 + (steps.get(type)?.length ?? 0);
}

/**
 * Converts stored data to the current schema version, step by step. Data that is not an object is returned unchanged;
 * the schema refuses it later.
 */
export function upcast(type: string, version: number, data: unknown): unknown {
  const missing = steps.get(type)?.slice(version - 1) ?? [];
  return missing.reduce((current, step) => (isObject(current) ? step(current) : current), data);
}
