import type { EventLog } from "../../../shared/eventstore/log.ts";
import { accessesQuerySchema, type ClinicAccess, listAccesses } from "../access/list-accesses.ts";
import { type AuditHandler, readQuery, recordRequestAccess } from "./audited-query.ts";
import type { AuditDependencies } from "./events.ts";
import { streamWithSlot } from "./scan-slots.ts";

/**
 * GET /audit/v1/accesses: who read or exported the records of a clinic, one access per line. The last line is
 * `{"end": …}`.
 */
export function streamAccesses({
  log,
  personalLog,
  client,
  takeSlot,
}: AuditDependencies & { personalLog: EventLog }): AuditHandler {
  return async (ctx) => {
    const query = readQuery(ctx.query, accessesQuerySchema);
    await streamWithSlot(ctx, takeSlot, async (signal) => {
      await recordRequestAccess(log, ctx, "accesses");
      const permittedClinicIds = ctx.state.auditor.clinicIds;
      const accesses = listAccesses(query, { personalLog, client, permittedClinicIds, signal });
      return { lines: toLines(accesses, query.limit) };
    });
  };
}

async function* toLines(
  accesses: AsyncIterable<ClinicAccess>,
  limit: number | undefined,
): AsyncGenerator<string, void> {
  let count = 0;
  let lastPosition: string | null = null;
  for await (const access of accesses) {
    count += 1;
    lastPosition = access.position;
    yield `${JSON.stringify(access)}\n`;
  }
  yield `${JSON.stringify({ end: { count, next: count === limit ? lastPosition : null } })}\n`;
}
