import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import { clinicAggregate } from "../../../shared/domain/clinic/clinic.ts";
import { calendarDate, uuid } from "../../../shared/domain/events/fields.ts";
import { addDays, getStartOfDay } from "../../../shared/domain/time/local-time.ts";
import { toInstant } from "../../../shared/domain/time/rfc3339.ts";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { readLogEnd } from "../../../shared/eventstore/log-end.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import { loadAggregate } from "../../handling/handle.ts";
import type { IsVisible } from "../access/visibility.ts";
import { type AuditEvent, revealAuditEvent } from "../log/audit-event.ts";
import { readStreamEvents } from "../log/read-stream.ts";
import { type ScanProgress, scanLog } from "../log/scan.ts";
import {
  createRelatedEventFilter,
  getStreamPrefixes,
  type Subject,
  type SubjectKind,
  subjectKinds,
} from "../related-events/related-events.ts";
import {
  createEventFilter,
  EMPTY_RANGE_ISSUE,
  filterFields,
  isRangeNotEmpty,
  positionField,
  streamField,
} from "./query-fields.ts";

const subjectFields = Object.fromEntries(subjectKinds.map((kind) => [kind, uuid.optional()])) as Record<
  SubjectKind,
  z.ZodOptional<typeof uuid>
>;

/** Fields of a query for events: one stream or one subject, and filters. */
const listFields = {
  stream: streamField.optional(),
  ...subjectFields,
  ...filterFields,
  /** Date in the clinic's time zone, for the events of a clinic. Replaces `from` and `to`. */
  day: calendarDate.optional(),
  /** Log position after which the list starts. */
  after: positionField.optional(),
  limit: z.coerce.number().int().min(1).max(1_000_000).optional(),
};

export const listQuerySchema = z
  .strictObject(listFields)
  .refine((query) => [query.stream, ...subjectKinds.map((kind) => query[kind])].filter(Boolean).length === 1, {
    message: `must have exactly one of stream, ${subjectKinds.join(", ")}`,
  })
  .refine(({ day, clinic, from, to }) => day === undefined || (clinic !== undefined && !from && !to), {
    path: ["day"],
    message: "must be combined with `clinic`, and not with `from` or `to`",
  })
  .refine(isRangeNotEmpty, EMPTY_RANGE_ISSUE);
export type ListQuery = z.output<typeof listQuerySchema>;

/** Source of the events, and the filter that limits which events the reader may see. */
export interface EventReadOptions {
  client: EventStoreDBClient;
  /** Keys of personal data in the events. */
  dataKeys: DataKeys;
  isVisible: IsVisible;
  signal: AbortSignal;
  onProgress?: ((progress: ScanProgress) => void) | undefined;
}

/** A list of events, which are read from the log while the caller iterates over them. */
export interface EventList {
  /** Log position of the last event when the query started. The list contains no later events. */
  logEnd: bigint;
  /** Events in log order. The iteration throws {@link LogUnavailableError} or {@link TooManyRelatedEventsError}. */
  events: AsyncGenerator<AuditEvent, void>;
}

/**
 * Lists the events that match the query and that the reader may see. Memory use does not depend on the number of
 * listed events.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function listEvents(query: ListQuery, readOptions: EventReadOptions): Promise<EventList> {
  const logEnd = await readLogEnd(readOptions.client);
  const candidates = readCandidates(query, logEnd, readOptions);
  return { logEnd, events: filterEvents(query, candidates, readOptions) };
}

async function* filterEvents(
  query: ListQuery,
  events: AsyncIterable<AuditEvent>,
  { isVisible, dataKeys }: EventReadOptions,
): AsyncGenerator<AuditEvent, void> {
  const matchesFilters = createEventFilter(query);
  let remainingCount = query.limit ?? Number.POSITIVE_INFINITY;
  for await (const event of events) {
    if (query.after !== undefined && BigInt(event.position) <= query.after) continue;
    if (!isVisible(event) || !matchesFilters(event)) continue;
    yield await revealAuditEvent(event, dataKeys);
    remainingCount -= 1;
    if (remainingCount === 0) return;
  }
}

/**
 * Yields all events of the stream, or all events related to the subject. Includes events that the reader may not see,
 * because a visible event may be related to the subject only through an invisible event.
 */
async function* readCandidates(
  query: ListQuery,
  logEnd: bigint,
  { client, signal, onProgress }: EventReadOptions,
): AsyncGenerator<AuditEvent, void> {
  if (query.stream !== undefined) {
    for await (const { auditEvent } of readStreamEvents(client, query.stream)) {
      if (signal.aborted || BigInt(auditEvent.position) > logEnd) return;
      yield auditEvent;
    }
    return;
  }
  const subject = getSubject(query);
  const isRelated = createRelatedEventFilter(subject);
  const prefixes = getStreamPrefixes(subject.kind);
  for await (const { auditEvent } of scanLog({ client, prefixes, endPosition: logEnd, signal, onProgress })) {
    if (isRelated(auditEvent)) yield auditEvent;
  }
}

function getSubject(query: ListQuery): Subject {
  for (const kind of subjectKinds) {
    const id = query[kind];
    if (id !== undefined) return { kind, id };
  }
  throw new Error("the query has no subject");
}

/**
 * Replaces the day of a query by a time range in the clinic's time zone. If the clinic does not exist, uses UTC.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function resolveDay(query: ListQuery, log: EventLog): Promise<ListQuery> {
  const { day, clinic } = query;
  if (day === undefined || clinic === undefined) return query;
  const { state } = await loadAggregate(log, clinicAggregate, clinic);
  const timeZone = state?.timezone ?? "UTC";
  const from = toInstant(getStartOfDay(timeZone, day));
  const to = toInstant(getStartOfDay(timeZone, addDays(day, 1)));
  return { ...query, from, to };
}
