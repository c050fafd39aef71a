import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import { calendarDate } from "../../../shared/domain/events/fields.ts";
import { getDay } from "../../../shared/domain/time/local-time.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { isVisible } from "../access/visibility.ts";
import { readIndexedEvents } from "../index/read-rows.ts";
import { type AuditEvent, type LogEvent, revealEvent } from "../log/audit-event.ts";
import { readClinicRegistration, readStreamEvents } from "../log/read-stream.ts";
import { type AuditQuery, type ItemStream, limitItems, type ReadOptions } from "./audit-query.ts";
import {
  createEventFilter,
  filterFields,
  getSubject,
  nonEmptyRange,
  oneSubject,
  pageFields,
  subjectFields,
  toRange,
  toSubjectKey,
} from "./query-fields.ts";

/** Fields of a query for events: one stream or one subject, and filters. */
const listFields = {
  ...subjectFields,
  ...filterFields,
  /** Date in the clinic's time zone, for the events of a clinic. Replaces `from` and `to`. */
  day: calendarDate.optional(),
  ...pageFields,
};

const listQuerySchema = z
  .strictObject(listFields)
  .refine(...oneSubject)
  .refine(({ day, clinic, from, to }) => day === undefined || (clinic !== undefined && !from && !to), {
    path: ["day"],
    message: "must be combined with `clinic`, and not with `from` or `to`",
  })
  .refine(...nonEmptyRange);
type ListQuery = z.output<typeof listQuerySchema>;

/**
 * Lists the matching events that the reader may see, in log order or reverse order. For a single stream, the query
 * reads only the log and does not need the index. Errors, such as {@link LogUnavailableError}, can also be thrown
 * during the iteration.
 */
export const eventsQuery: AuditQuery<typeof listQuerySchema, ItemStream<AuditEvent>> = {
  action: "events",
  schema: listQuerySchema,
  run: async (parameters, options) => {
    const query = await resolveDay(parameters, options.client);
    const { client, index } = options;
    const logEnd = query.stream === undefined ? await index.awaitLogEnd(client) : await readLogEnd(client);
    const events =
      query.stream === undefined ? readRelated(query, logEnd, options) : readMatches(query, logEnd, options);
    return limitItems(reveal(events, options), query.limit, { through: String(logEnd) });
  },
};

/**
 * Yields the events that the reader may see, with decrypted personal data. Checks each event itself instead of relying
 * on the index.
 */
async function* reveal(
  events: AsyncIterable<LogEvent>,
  { permittedClinicIds, dataKeys, signal }: ReadOptions,
): AsyncGenerator<AuditEvent, void> {
  for await (const logEvent of events) {
    if (signal?.aborted) return;
    if (isVisible(logEvent.auditEvent, permittedClinicIds)) yield (await revealEvent(logEvent, dataKeys)).auditEvent;
  }
}

function readRelated(query: ListQuery, logEnd: bigint, options: ReadOptions): AsyncIterable<LogEvent> {
  const { from, to, by, type: types, actor, limit } = query;
  const filters = { from, to, by, types, actor, ...toRange(query, logEnd), clinicIds: options.permittedClinicIds };
  return readIndexedEvents(options, { keys: [toSubjectKey(getSubject(query))], ...filters }, limit);
}

async function* readMatches(query: ListQuery, logEnd: bigint, { client }: ReadOptions): AsyncGenerator<LogEvent, void> {
  const matchesFilters = createEventFilter(query);
  const { after = -1n, before, isNewestFirst } = toRange(query, logEnd);
  const later: LogEvent[] = [];
  for await (const logEvent of readStreamEvents(client, query.stream ?? "")) {
    const { auditEvent } = logEvent;
    const position = BigInt(auditEvent.position);
    if (position <= after || position >= before || !matchesFilters(auditEvent)) continue;
    if (isNewestFirst) later.push(logEvent);
    else yield logEvent;
  }
  yield* later.reverse();
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
