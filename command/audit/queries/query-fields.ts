import { z } from "zod";
import { categories } from "../../../shared/domain/events/catalog.ts";
import { instant, word } from "../../../shared/domain/events/fields.ts";
import type { AuditEvent } from "../log/audit-event.ts";

const knownTypes = new Set<string>(categories.flatMap(({ events }) => Object.keys(events)));

/** Which time of an event a filter compares: when it occurred, or when the log stored it. */
export const timeBasisField = z.enum(["occurred", "stored"]).default("occurred");
export type TimeBasis = z.infer<typeof timeBasisField>;

/** Query fields that filter events. */
export const filterFields = {
  from: instant.optional(),
  to: instant.optional(),
  by: timeBasisField,
  type: z
    .string()
    .transform((text) => text.split(",").map((type) => type.trim()))
    .pipe(
      z.array(
        z.string().refine((type) => knownTypes.has(type), "must name event types, such as ClinicRegistered"),
      ),
    )
    .optional(),
  actor: word(220).optional(),
};

/**
 * Returns whether a time range is not empty. An empty range is an error, because an empty list would look like a
 * result.
 */
export function endsAfterItBegins({
  from,
  to,
}: {
  from?: string | undefined;
  to?: string | undefined;
}): boolean {
  return from === undefined || to === undefined || from < to;
}

export const EMPTY_RANGE = { path: ["to"], message: "must be later than from" };

const schema = z.object(filterFields);
export type EventFilter = z.output<typeof schema>;

/**
 * @param filter.from inclusive
 * @param filter.to exclusive
 * @param filter.actor `type:id`, or an id of any actor type
 */
export function passes(filter: Omit<EventFilter, "by"> & { by?: TimeBasis }): (event: AuditEvent) => boolean {
  const { from, to, by, type, actor } = filter;
  const types = type && new Set(type);
  return (event) => {
    const at = timeOf(event, by ?? "occurred");
    if (from !== undefined && at < from) return false;
    if (to !== undefined && at >= to) return false;
    if (types && !types.has(event.type)) return false;
    if (actor === undefined) return true;
    return event.actor?.id === actor || `${event.actor?.type}:${event.actor?.id}` === actor;
  };
}

/** Returns the time to compare. An event without an occurrence time is compared by its storage time. */
export function timeOf({ occurredAt, storedAt }: AuditEvent, by: TimeBasis): string {
  return by === "stored" ? storedAt : (occurredAt ?? storedAt);
}

const names = new Set<string>(categories.map(({ name }) => name));

/** Name of a stream of the catalog, `<category>-<id>`. */
export const streamField = word(300).refine(
  (name) => names.has(categoryOf(name)) && name.includes("-"),
  "must name a stream, such as appointment-<id>",
);

export function categoryOf(stream: string): string {
  return stream.slice(0, Math.max(0, stream.indexOf("-")));
}
