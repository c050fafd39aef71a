import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import { calendarDate } from "../../../shared/domain/events/fields.ts";
import { getDay } from "../../../shared/domain/time/local-time.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { type AuditEvent, revealAuditEvent } from "../log/audit-event.ts";
import { readClinicRegistration, readStreamEvents } from "../log/read-stream.ts";
import { scanLog } from "../log/scan.ts";
import { createRelatedEventFilter, getStreamPrefixes } from "../related-events/related-events.ts";
import { type AuditQuery, type ItemStream, limitItems, type ReadOptions } from "./audit-query.ts";
import {
  createEventFilter,
  EMPTY_RANGE_ISSUE,
  filterFields,
  getSubject,
  hasOneSubject,
  isRangeNotEmpty,
  ONE_SUBJECT_ISSUE,
  positionField,
  subjectFields,
} from "./query-fields.ts";

/** Fields of a query for events: one stream or one subject, and filters. */
const listFields = {
  ...subjectFields,
  ...filterFields,
  /** Date in the clinic's time zone, for the events of a clinic. Replaces `from` and `to`. */
  day: calendarDate.optional(),
  after: positionField.optional(),
  limit: z.coerce.number().int().min(1).max(1_000_000).optional(),
};

const listQuerySchema = z
  .strictObject(listFields)
  .refine(hasOneSubject, ONE_SUBJECT_ISSUE)
  .refine(({ day, clinic, from, to }) => day === undefined || (clinic !== undefined && !from && !to), {
    path: ["day"],
    message: "must be combined with `clinic`, and not with `from` or `to`",
  })
  .refine(isRangeNotEmpty, EMPTY_RANGE_ISSUE);
type ListQuery = z.output<typeof listQuerySchema>;

/**
 * Lists the events that match the query and that the reader may see, in log order. Memory use does not depend on the
 * number of listed events. The iteration throws {@link LogUnavailableError} or {@link TooManyRelatedEventsError}.
 */
export const eventsQuery: AuditQuery<typeof listQuerySchema, ItemStream<AuditEvent>> = {
  action: "events",
  schema: listQuerySchema,
  isScan: true,
  run: async (parameters, options) => {
    const query = await resolveDay(parameters, options.client);
    const logEnd = await readLogEnd(options.client);
    return limitItems(readMatches(query, logEnd, options), query.limit, { through: String(logEnd) });
  },
};

async function* readMatches(query: ListQuery, logEnd: bigint, options: ReadOptions): AsyncGenerator<AuditEvent, void> {
  const { isVisible, dataKeys } = options;
  const matchesFilters = createEventFilter(query);
  for await (const event of readCandidates(query, logEnd, options)) {
    if (query.after !== undefined && BigInt(event.position) <= query.after) continue;
    if (isVisible(event) && matchesFilters(event)) yield await revealAuditEvent(event, dataKeys);
  }
}

/**
 * Yields all events of the stream, or all events related to the subject. Includes events that the reader may not see,
 * because a visible event may be related to the subject only through an invisible event.
 */
async function* readCandidates(
  query: ListQuery,
  logEnd: bigint,
  { client, signal, onProgress }: ReadOptions,
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

/**
 * Replaces the day of a query by a time range in the clinic's time zone. If the clinic does not exist, uses UTC.
 *
 * @throws {LogUnavailableError} if the event log cannot be read
 */
async function resolveDay(query: ListQuery, client: EventStoreDBClient): Promise<ListQuery> {
  const { day, clinic } = query;
  if (day === undefined || clinic === undefined) return query;
  const registration = await readClinicRegistration(client, clinic);
  return { ...query, ...getDay(registration?.timezone ?? "UTC", day) };
}
