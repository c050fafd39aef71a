import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import type { ScanProgress } from "../log/scan.ts";
import { type EventList, type ListQuery, listEvents, listQuerySchema, resolveDay } from "../queries/list-events.ts";
import { type AuditHandler, readQuery, recordRequestAccess } from "./audited-query.ts";
import { streamWithSlot, type TakeSlot } from "./scan-slots.ts";

export interface AuditDependencies {
  log: EventLog;
  client: EventStoreDBClient;
  dataKeys: DataKeys;
  takeSlot: TakeSlot;
}

/** Schema of the parameter that adds progress lines to the response. */
const progressQuerySchema = z.object({ progress: z.enum(["true", "false"]).default("false") });

/**
 * GET /audit/v1/events: the matching events, one per line. The last line is `{"end": …}`. A response without this line
 * is incomplete.
 */
export function streamEvents({ log, client, dataKeys, takeSlot }: AuditDependencies): AuditHandler {
  return async (ctx) => {
    const { progress, ...recordedQuery } = ctx.query;
    const parameters = readQuery(recordedQuery, listQuerySchema);
    const shouldReportProgress = readQuery({ progress }, progressQuerySchema).progress === "true";
    await streamWithSlot(ctx, takeSlot, async (signal) => {
      await recordRequestAccess(log, ctx, "events", recordedQuery);
      let latestProgress: ScanProgress = { read: 0, share: 0 };
      const onProgress = (progress: ScanProgress) => {
        latestProgress = progress;
      };
      const query = await resolveDay(parameters, log);
      const { isVisible } = ctx.state;
      const eventList = await listEvents(query, { client, dataKeys, isVisible, signal, onProgress });
      const getProgressLine = () => `${JSON.stringify({ progress: latestProgress })}\n`;
      return { lines: toLines(eventList, query), getProgressLine: shouldReportProgress ? getProgressLine : undefined };
    });
  };
}

async function* toLines({ events, logEnd }: EventList, { limit }: ListQuery): AsyncGenerator<string, void> {
  let count = 0;
  let lastPosition: string | null = null;
  for await (const event of events) {
    count += 1;
    lastPosition = event.position;
    yield `${JSON.stringify(event)}\n`;
  }
  // If the list reaches the limit, there may be more events. The next page can be empty.
  const next = count === limit ? lastPosition : null;
  yield `${JSON.stringify({ end: { count, next, through: String(logEnd) } })}\n`;
}
