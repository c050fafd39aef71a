import type { CatalogEventType } from "./catalog.ts";

/** Turns the stored data of one version of an event type into the next version's. Pure; it trusts nothing of the data. */
type Upcast = (data: Readonly<Record<string, unknown>>) => Record<string, unknown>;

/**
 * The way from each former version to the next, by event type: the first from version 1 to 2. A type that is not
 * here is still of version 1. A former version is never touched again, since its bytes stand in the log.
 */
const upcasters: Partial<Record<CatalogEventType, readonly Upcast[]>> = {
  AppointmentRequested: [
    // Version 1 left the generation out where no sandbox's application asked for the appointment.
    (data) => ({ sandboxGeneration: 0, ...data }),
  ],
  StreamParked: [
    // In version 1 a stream could be parked only where the projectors had stopped.
    (data) => ({ passedOverBy: "all", ...data }),
  ],
  SandboxReset: [
    // The facts of a reset have no version of their own: in version 1 they were all of version 1.
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

/** The version of the schema that events of a type are written by. */
export function currentVersion(type: string): number {
  return 1 + (steps.get(type)?.length ?? 0);
}

/**
 * Brings stored data of a version, up to the current one, into the present form, version by version. What is no object
 * stays as it is: the schema says what is wrong with it.
 */
export function upcast(type: string, version: number, data: unknown): unknown {
  const missing = steps.get(type)?.slice(version - 1) ?? [];
  return missing.reduce((current, step) => (isObject(current) ? step(current) : current), data);
}
