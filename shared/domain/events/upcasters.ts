import type { CatalogEventType } from "./catalog.ts";

/** Converts stored data of an event type to the next schema version. An upcaster is pure, and accepts any object. */
type Upcaster = (data: Readonly<Record<string, unknown>>) => Record<string, unknown>;

/**
 * Upcasters by event type. The first upcaster of a type converts version 1 to version 2, the second converts version 2
 * to version 3. A type without upcasters has version 1. After a release, an upcaster must never change, because the log
 * keeps the old data.
 */
export const upcasters = new Map<CatalogEventType, readonly Upcaster[]>([]);

export function getCurrentVersion(type: string): number {
  return 1 + findUpcasters(type).length;
}

/**
 * Converts stored data to the current schema version, one version at a time. Data that is not an object is returned
 * unchanged, because the schema refuses it later.
 */
export function upcast(type: string, version: number, data: unknown): unknown {
  return findUpcasters(type)
    .slice(version - 1)
    .reduce((value, upcaster) => (isObject(value) ? upcaster(value) : value), data);
}

function findUpcasters(type: string): readonly Upcaster[] {
  return upcasters.get(type as CatalogEventType) ?? [];
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
