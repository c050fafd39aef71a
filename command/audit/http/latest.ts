import { latestQuerySchema, listLatestEvents } from "../queries/list-latest.ts";
import { type AuditHandler, readQuery, recordRequestAccess } from "./audited-query.ts";
import type { AuditDependencies } from "./events.ts";
import type { TakeSlot } from "./scan-slots.ts";

/** GET /audit/v1/latest: the latest events of a clinic, the newest first. */
export function sendLatestEvents({
  log,
  client,
  dataKeys,
  takeStateSlot,
}: AuditDependencies & { takeStateSlot: TakeSlot }): AuditHandler {
  return async (ctx) => {
    const query = readQuery(ctx.query, latestQuerySchema);
    const releaseSlot = takeStateSlot(ctx.state.auditor.id);
    try {
      await recordRequestAccess(log, ctx, "latest");
      const latestEvents = await listLatestEvents(query, { client, dataKeys, isVisible: ctx.state.isVisible });
      ctx.body = { ok: true, ...latestEvents };
    } finally {
      releaseSlot();
    }
  };
}
