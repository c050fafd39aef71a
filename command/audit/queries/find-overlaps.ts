import { z } from "zod";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { listFixtureOccupations } from "../../../shared/domain/partner/sandbox.ts";
import { findOverlaps, type Overlap, type Places } from "../../../shared/domain/scheduling/resource-day.ts";
import { readIndexedEvents } from "../index/read-rows.ts";
import type { AuditEvent, LogEvent } from "../log/audit-event.ts";
import type { AuditQuery } from "./audit-query.ts";
import { toSubjectKey } from "./query-fields.ts";

const overlapsQuerySchema = z.strictObject({ clinic: uuid });

/** An overlap and the event that created it, or an event that cannot be checked and its `problem`. */
export type OverlapFinding = Pick<AuditEvent, "position" | "stream" | "revision" | "problem"> & Partial<Overlap>;

/** Types of the events that change reservations or the capacity of a resource. */
export const OVERLAP_TYPES = ["ResourceAdded", "SandboxReset", "PlaceReserved", "PlaceReleased"];

/** Finds overlaps among all reservations of a clinic. */
export const overlapsQuery: AuditQuery<typeof overlapsQuerySchema, ReturnType<typeof checkOverlaps>> = {
  action: "overlaps",
  schema: overlapsQuerySchema,
  run: async ({ clinic: id }, options) => {
    const before = (await options.index.awaitLogEnd(options.client)) + 1n;
    const keys = [toSubjectKey({ kind: "clinic", id })];
    return checkOverlaps(
      readIndexedEvents(options, { keys, types: OVERLAP_TYPES, before, clinicIds: options.permittedClinicIds }),
    );
  },
};

/**
 * Finds overlaps of reservations. Yields each overlap once, with the event that created it. Also yields each event that
 * cannot be checked.
 *
 * @param events events of the types {@link OVERLAP_TYPES}, from the start of the log, in log order
 * @returns number of events that were checked
 */
export async function* checkOverlaps(events: AsyncIterable<LogEvent>): AsyncGenerator<OverlapFinding, number> {
  const resources = new Map<string, Places>();
  const foundOverlaps = new Set<string>();
  let count = 0;
  for await (const { auditEvent, catalogEvent } of events) {
    const { position, stream, revision, problem = "unreadable" } = auditEvent;
    const reference = { position, stream, revision };
    if (catalogEvent?.type === "ResourceAdded") {
      const { resourceId, capacity } = catalogEvent.data;
      resources.set(`${resourceId}.0`, { capacity, fixtureOccupations: [] });
    } else if (catalogEvent?.type === "SandboxReset") {
      const { events: fixture, generation } = catalogEvent.data;
      for (const { type, data } of fixture) {
        if (type !== "ResourceAdded") continue;
        const fixtureOccupations = listFixtureOccupations({ events: fixture }, data.resourceId);
        resources.set(`${data.resourceId}.${generation}`, { capacity: data.capacity, fixtureOccupations });
      }
    } else if (catalogEvent?.type === "PlaceReserved" || catalogEvent?.type === "PlaceReleased") {
      const { resourceId, sandboxGeneration, reservations } = catalogEvent.data;
      const resource = resources.get(`${resourceId}.${sandboxGeneration}`);
      if (resource) count += 1;
      else yield { ...reference, problem: "resource_unknown" };
      for (const overlap of resource ? findOverlaps(resource, reservations) : []) {
        const key = `${stream} ${JSON.stringify(overlap)}`;
        if (!foundOverlaps.has(key)) yield { ...reference, ...overlap };
        foundOverlaps.add(key);
      }
    } else yield { ...reference, problem };
  }
  return count;
}
