import { z } from "zod";
import { calendarDate } from "../../../shared/domain/events/fields.ts";
import { getDay } from "../../../shared/domain/time/local-time.ts";
import { readLogEnd } from "../../../shared/eventstore/read-log.ts";
import { isVisible } from "../access/visibility.ts";
import { type IndexedLog, readIndexedEvents } from "../index/read-rows.ts";
import { type AuditEvent, type LogEvent, revealEvent } from "../log/audit-event.ts";
import { readClinicRegistration, readKnownEvents } from "../log/read-stream.ts";
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
 * Lists the matching events that the reader may see, in log order or reverse order. For the events of a stream, the
 * query reads the index only if the stream was deleted. The iteration throws errors, such as {@link LogUnavailableError}.
 */
export const eventsQuery: AuditQuery<typeof listQuerySchema, ItemStream<AuditEvent>> = {
  action: "events",
  schema: listQuerySchema,
  run: async (parameters, options) => {
    const query = await resolveDay(parameters, options);
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

async function* readMatches(query: ListQuery, logEnd: bigint, log: IndexedLog): AsyncGenerator<LogEvent, void> {
  const matchesFilters = createEventFilter(query);
  const { after = -1n, before, isNewestFirst } = toRange(query, logEnd);
  const later: LogEvent[] = [];
  for await (const logEvent of readKnownEvents(log, query.stream ?? "")) {
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
async function resolveDay(query: ListQuery, log: IndexedLog): Promise<ListQuery> {
  const { day, clinic } = query;
  if (day === undefined || clinic === undefined) return query;
  const registration = await readClinicRegistration(log, clinic);
  return { ...query, ...getDay(registration?.timezone ?? "UTC", day) };
}
