import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import type { IsVisible } from "../access/visibility.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { readStreamEvents } from "../log/read-stream.ts";
import { logEnd, type ScanProgress, scan } from "../log/scan.ts";
import {
  createRelatedEventsFinder,
  prefixesFor,
  type Subject,
  type SubjectKind,
  subjectId,
  subjectKinds,
} from "../related-events/related-events.ts";
import { EMPTY_RANGE, endsAfterItBegins, filterFields, passes, streamField } from "./query-fields.ts";

const subjectFields = Object.fromEntries(subjectKinds.map((kind) => [kind, subjectId.optional()])) as Record<
  SubjectKind,
  z.ZodOptional<typeof subjectId>
>;

/** Fields of the query: one stream or one subject, and filters. */
export const listFields = {
  stream: streamField.optional(),
  ...subjectFields,
  ...filterFields,
  /** Only events after this log position. */
  after: z
    .string()
    .regex(/^\d{1,20}$/, "must be a position")
    .transform(BigInt)
    .optional(),
  limit: z.coerce.number().int().min(1).max(1_000_000).optional(),
};

export const listQuery = z
  .strictObject(listFields)
  .refine(
    (query) => [query.stream, ...subjectKinds.map((kind) => query[kind])].filter(Boolean).length === 1,
    { message: `must have exactly one of stream, ${subjectKinds.join(", ")}` },
  )
  .refine(endsAfterItBegins, EMPTY_RANGE);
export type ListQuery = z.output<typeof listQuery>;

/** Source of the events, and the access limit of the reader. */
export interface Reading {
  client: EventStoreDBClient;
  isVisible: IsVisible;
  signal: AbortSignal;
  onProgress?: ((progress: ScanProgress) => void) | undefined;
}

/** A list of events that is ready to be read. */
export interface EventList {
  /** End of the log when the query started; the list ends here. */
  through: bigint;
  /** Events in log order. @throws {LogUnavailableError} @throws {TooManyRelatedEventsError} */
  events: AsyncGenerator<AuditEvent, void>;
}

/**
 * Lists the matching events that the reader may see. Events are read on demand, in bounded memory.
 *
 * @throws {LogUnavailableError}
 */
export async function listEvents(query: ListQuery, reading: Reading): Promise<EventList> {
  const through = await logEnd(reading.client);
  return { through, events: pick(query, candidates(query, through, reading), reading.isVisible) };
}

async function* pick(
  query: ListQuery,
  events: AsyncIterable<AuditEvent>,
  isVisible: IsVisible,
): AsyncGenerator<AuditEvent, void> {
  const wanted = passes(query);
  let left = query.limit ?? Number.POSITIVE_INFINITY;
  for await (const event of events) {
    if (query.after !== undefined && BigInt(event.position) <= query.after) continue;
    if (!isVisible(event) || !wanted(event)) continue;
    yield event;
    left -= 1;
    if (left === 0) return;
  }
}

/**
 * Yields all events of the stream or related to the subject, including invisible ones: later events may be related to
 * them.
 */
async function* candidates(
  query: ListQuery,
  through: bigint,
  { client, signal, onProgress }: Reading,
): AsyncGenerator<AuditEvent, void> {
  if (query.stream !== undefined) {
    for await (const { shown } of readStreamEvents(client, query.stream)) {
      if (signal.aborted || BigInt(shown.position) > through) return;
      yield shown;
    }
    return;
  }
  const subject = subjectOf(query);
  const concerns = createRelatedEventsFinder(subject);
  const prefixes = prefixesFor(subject.kind);
  for await (const { shown } of scan({ client, prefixes, through, signal, onProgress })) {
    if (concerns(shown)) yield shown;
  }
}

function subjectOf(query: ListQuery): Subject {
  for (const kind of subjectKinds) {
    const id = query[kind];
    if (id !== undefined) return { kind, id };
  }
  throw new Error("the query has no subject");
}
