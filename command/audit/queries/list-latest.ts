import { BACKWARDS, END, type EventStoreDBClient, type ReadPosition } from "@eventstore/db-client";
import { z } from "zod";
import { isCatalogStream } from "../../../shared/domain/events/catalog.ts";
import { uuid } from "../../../shared/domain/events/fields.ts";
import { readWithin } from "../../../shared/eventstore/read-log.ts";
import { getClinicIds } from "../access/visibility.ts";
import { type AuditEvent, type LogEvent, revealAuditEvent, toLogEvent } from "../log/audit-event.ts";
import type { AuditQuery, ReadOptions } from "./audit-query.ts";
import { positionField } from "./query-fields.ts";

const latestQuerySchema = z.strictObject({
  clinic: uuid,
  /** Log position before which the list starts. Default: the end of the log. */
  before: positionField.optional(),
  limit: z.coerce.number().int().min(1).max(500).default(50),
});
type LatestQuery = z.output<typeof latestQuerySchema>;

const PAGE_SIZE = 1_000;

/** Maximum number of events that one query reads. The caller continues with the position in the response. */
const MAX_READ_EVENTS = 20_000;

const PAGE_TIMEOUT_MS = 10_000;

interface LatestEvents {
  events: AuditEvent[];
  /** Value of `before` that continues the list; null if the list has reached the start of the log. */
  next: string | null;
}

/**
 * Lists the latest events of a clinic. Reads the log backwards, up to a maximum number of events of all clinics, so the
 * list can be shorter than the limit although it is incomplete.
 */
export const latestQuery: AuditQuery<typeof latestQuerySchema, LatestEvents> = {
  action: "latest",
  schema: latestQuerySchema,
  run: listLatestEvents,
};

async function listLatestEvents(
  { clinic, before, limit }: LatestQuery,
  { client, dataKeys, isVisible }: ReadOptions,
): Promise<LatestEvents> {
  const events: AuditEvent[] = [];
  let position = before;
  for (let readCount = 0; readCount < MAX_READ_EVENTS; readCount += PAGE_SIZE) {
    const page = await readPageBefore(client, position);
    for (const { auditEvent } of page.events) {
      if (!getClinicIds(auditEvent).includes(clinic) || !isVisible(auditEvent)) continue;
      events.push(await revealAuditEvent(auditEvent, dataKeys));
      if (events.length === limit) return { events, next: auditEvent.position };
    }
    if (page.start === undefined) return { events, next: null };
    position = page.start;
  }
  return { events, next: String(position) };
}

/**
 * Reads the events before a position, the newest first.
 *
 * @param before exclusive; undefined for the end of the log
 * @returns the catalog's events, and the position of the oldest event that was read; undefined at the start of the log
 */
async function readPageBefore(
  client: EventStoreDBClient,
  before: bigint | undefined,
): Promise<{ events: LogEvent[]; start: bigint | undefined }> {
  const fromPosition: ReadPosition = before === undefined ? END : { commit: before, prepare: before };
  const options = { direction: BACKWARDS, fromPosition, maxCount: PAGE_SIZE, deadline: PAGE_TIMEOUT_MS } as const;
  const events: LogEvent[] = [];
  let start: bigint | undefined;
  let readCount = 0;
  for await (const { event, commitPosition } of readWithin(PAGE_TIMEOUT_MS, client.readAll(options))) {
    readCount += 1;
    const position = commitPosition ?? event?.position?.commit;
    if (position === undefined || (before !== undefined && position >= before)) continue;
    start = position;
    if (event && isCatalogStream(event.streamId)) events.push(toLogEvent(event, position));
  }
  return { events, start: readCount < PAGE_SIZE ? undefined : start };
}
