import { z } from "zod";
import { categories } from "../../../shared/domain/events/catalog.ts";
import { boundedText, instant, uuid } from "../../../shared/domain/events/fields.ts";
import { toKey, toPurposeKey } from "../index/index-keys.ts";
import type { AuditEvent } from "../log/audit-event.ts";

const eventTypes = new Set<string>(categories.flatMap(({ events }) => Object.keys(events)));

/** Time of an event: `occurred`, as reported by its writer, or `stored`, as recorded by the log. */
export const timeBasisField = z.enum(["occurred", "stored"]).default("occurred");
export type TimeBasis = z.infer<typeof timeBasisField>;

export const filterFields = {
  from: instant.optional(),
  to: instant.optional(),
  by: timeBasisField,
  type: z
    .string()
    .transform((text) => text.split(",").map((type) => type.trim()))
    .pipe(
      z
        .array(z.string().refine((type) => eventTypes.has(type), "must name event types, such as ClinicRegistered"))
        .max(eventTypes.size),
    )
    .optional(),
  actor: boundedText(220)
    .transform((text) => text.normalize())
    .optional(),
};

/** A rule for a combination of query fields, as the arguments of zod's `refine`. */
type Rule<Query> = [isFulfilled: (query: Query) => boolean, issue: { path?: string[]; message: string }];

/**
 * Rule that rejects an empty time range. Otherwise, an auditor could conclude from an empty list that no events match
 * the filters.
 */
export const nonEmptyRange: Rule<{ from?: string | undefined; to?: string | undefined }> = [
  ({ from, to }) => from === undefined || to === undefined || from < to,
  { path: ["to"], message: "must be later than `from`" },
];

/** Returns a rule that exactly one of the named fields must be present. */
export const exactlyOne = <Name extends string>(...names: readonly Name[]): Rule<{ [name in Name]?: unknown }> => [
  (query) => names.filter((name) => query[name] !== undefined).length === 1,
  { message: `must have exactly one of ${names.join(", ")}` },
];

/**
 * Creates a predicate that returns true for events that match a filter.
 *
 * @param filter.from inclusive
 * @param filter.to exclusive
 * @param filter.actor `type:id`, or only an id, which then matches actors of any type
 */
export function createEventFilter({
  from,
  to,
  by: timeBasis,
  type,
  actor,
}: z.output<z.ZodObject<typeof filterFields>>) {
  const types = type && new Set<string>(type);
  return (event: AuditEvent): boolean => {
    const eventTime = getEventTime(event, timeBasis);
    if (from !== undefined && eventTime < from) return false;
    if (to !== undefined && eventTime >= to) return false;
    if (types && !types.has(event.type)) return false;
    if (actor === undefined) return true;
    const actorId = event.actor?.id.normalize();
    return actorId === actor || `${event.actor?.type}:${actorId}` === actor;
  };
}

/** Returns the occurrence or storage time of an event. If the occurrence time is unknown, returns the storage time. */
export function getEventTime({ occurredAt, storedAt }: AuditEvent, timeBasis: TimeBasis): string {
  return timeBasis === "stored" ? storedAt : (occurredAt ?? storedAt);
}

export const subjectKinds = [
  ...(["appointment", "customer", "animal", "clinic", "application", "correlation", "auditor"] as const),
];
export type SubjectKind = (typeof subjectKinds)[number];

interface Subject {
  kind: SubjectKind;
  id: string;
}

/** Returns the key under which the index finds the events of a subject. */
export function toSubjectKey({ kind, id }: Subject): string {
  return kind === "clinic" || kind === "correlation" ? toPurposeKey(kind, id) : toKey(id);
}

const categoryNames = new Set<string>(categories.map(({ name }) => name));

/** Name of a stream whose category is in the catalog: `<category>-<id>`. */
export const streamField = boundedText(300).refine(
  (name) => categoryNames.has(getCategoryName(name)),
  "must name a stream, such as appointment-<id>",
);

export const subjectFields = {
  stream: streamField.optional(),
  ...(Object.fromEntries(subjectKinds.map((kind) => [kind, uuid.optional()])) as Record<
    SubjectKind,
    z.ZodOptional<typeof uuid>
  >),
};

type SubjectQuery = { [field in keyof typeof subjectFields]?: string | undefined };

export const oneSubject = exactlyOne("stream", ...subjectKinds);

export function getSubject(query: SubjectQuery): Subject {
  for (const kind of subjectKinds) {
    const id = query[kind];
    if (id !== undefined) return { kind, id };
  }
  throw new Error("the query has no subject");
}

export const positionField = z
  .string()
  .regex(/^\d{1,20}$/, "must be a log position")
  .transform(BigInt);

/** Fields that page through a list. In the order `newest`, the next page contains the events before `after`. */
export const pageFields = {
  order: z.enum(["oldest", "newest"]).default("oldest"),
  after: positionField.optional(),
  limit: z.coerce.number().int().min(1).max(1_000_000).optional(),
};
type PageQuery = z.output<z.ZodObject<typeof pageFields>>;

/** Returns the range of log positions that a list query reads, with exclusive bounds, and the direction. */
export function toRange({ order, after }: Pick<PageQuery, "order" | "after">, logEnd: bigint) {
  const end = logEnd + 1n;
  if (order === "oldest") return { after, before: end, isNewestFirst: false };
  return { before: after !== undefined && after < end ? after : end, isNewestFirst: true };
}

export function getCategoryName(stream: string): string {
  return stream.slice(0, Math.max(0, stream.indexOf("-")));
}
