import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import type { ScanProgress } from "../log/scan.ts";
import { type EventList, type ListQuery, listEvents, listQuery } from "../queries/list-events.ts";
import { type AuditContext, readQuery, recordRequestAccess } from "./audited-query.ts";
import { type TakeSlot, withSlot } from "./scan-slots.ts";

export interface AuditDependencies {
  log: EventLog;
  client: EventStoreDBClient;
  takeSlot: TakeSlot;
}

/** `progress` requests progress lines between the events. */
const question = z.object({ progress: z.enum(["true", "false"]).default("false") });

/**
 * GET /audit/v1/events: the matching events, one per line. The last line is `{"end": …}`; a response without it is
 * incomplete.
 */
export function streamEvents({
  log,
  client,
  takeSlot,
}: AuditDependencies): (ctx: AuditContext) => Promise<void> {
  return async (ctx) => {
    const { progress, ...query } = ctx.query;
    const asked = readQuery(query, listQuery);
    const wanted = readQuery(progress === undefined ? {} : { progress }, question).progress === "true";
    await withSlot(ctx, takeSlot, async (signal) => {
      await recordRequestAccess(log, ctx, "events", query);
      let latest: ScanProgress = { read: 0, share: 0 };
      const onProgress = (now: ScanProgress) => {
        latest = now;
      };
      const list = await listEvents(asked, { client, isVisible: ctx.state.isVisible, signal, onProgress });
      const progressLine = () => `${JSON.stringify({ progress: latest })}\n`;
      return { lines: toLines(list, asked), progress: wanted ? progressLine : undefined };
    });
  };
}

async function* toLines({ events, through }: EventList, { limit }: ListQuery): AsyncGenerator<string, void> {
  let count = 0;
  let last: string | null = null;
  for await (const event of events) {
    count += 1;
    last = event.position;
    yield `${JSON.stringify(event)}\n`;
  }
  // A full page may be the last page. The next page is then empty.
  const next = count === limit ? last : null;
  yield `${JSON.stringify({ end: { count, next, through: String(through) } })}\n`;
}
