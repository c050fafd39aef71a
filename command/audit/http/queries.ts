import type { EventStoreDBClient } from "@eventstore/db-client";
import { z } from "zod";
import type { EventLog } from "../../../shared/eventstore/log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import type { DataKeys } from "../../../shared/personal-data/data-keys.ts";
import type { ScanProgress } from "../log/scan.ts";
import { type AuditQuery, type ItemStream, type ReadOptions, StreamNotFoundError } from "../queries/audit-query.ts";
import { UnreadableStreamError } from "../state/replay.ts";
import { type AuditContext, type AuditHandler, readQuery, recordRequestAccess } from "./audited-query.ts";
import { streamWithSlot, type TakeSlot } from "./scan-slots.ts";

export interface AuditDependencies {
  log: EventLog;
  client: EventStoreDBClient;
  dataKeys: DataKeys;
  takeSlot: TakeSlot;
  /** Limits queries that return one JSON object, so that scans do not delay them. */
  takeStateSlot: TakeSlot;
}

/**
 * Serves a query as JSON lines, one item per line. The last line is `{"end": …}`. A response without this line is
 * incomplete.
 */
export function streamQuery<Schema extends z.ZodType>(
  { action, schema, isScan, run }: AuditQuery<Schema, ItemStream<unknown>>,
  dependencies: AuditDependencies,
): AuditHandler {
  return async (ctx) => {
    const { progress, ...recordedQuery } = isScan ? ctx.query : { progress: undefined, ...ctx.query };
    const query = readQuery(recordedQuery, schema);
    const progressLines = createProgressLines(readQuery({ progress }, progressQuerySchema).progress);
    await streamWithSlot(ctx, dependencies.takeSlot, async (signal) => {
      await recordRequestAccess(dependencies.log, ctx, action, recordedQuery);
      const options = toReadOptions(ctx, dependencies, { signal, onProgress: progressLines.onProgress });
      const items = await run(query, options).catch(throwApiError);
      return { lines: toLines(items), getProgressLine: progressLines.getProgressLine };
    });
  };
}

export function sendQueryResult<Schema extends z.ZodType>(
  { action, schema, run }: AuditQuery<Schema, object>,
  dependencies: AuditDependencies,
): AuditHandler {
  return async (ctx) => {
    const query = readQuery(ctx.query, schema);
    const releaseSlot = dependencies.takeStateSlot(ctx.state.auditor);
    try {
      await recordRequestAccess(dependencies.log, ctx, action);
      const options = toReadOptions(ctx, dependencies, { signal: new AbortController().signal });
      ctx.body = { ok: true, ...(await run(query, options).catch(throwApiError)) };
    } finally {
      releaseSlot();
    }
  };
}

function toReadOptions(
  ctx: AuditContext,
  { client, dataKeys }: AuditDependencies,
  scanOptions: Pick<ReadOptions, "signal" | "onProgress">,
): ReadOptions {
  const { isVisible, auditor } = ctx.state;
  return { client, dataKeys, isVisible, permittedClinicIds: auditor.clinicIds, ...scanOptions };
}

async function* toLines(items: ItemStream<unknown>): AsyncGenerator<string, void> {
  let count = 0;
  for (;;) {
    const { done, value } = await items.next();
    if (done) return yield `${JSON.stringify({ end: { count, ...value } })}\n`;
    count += 1;
    yield `${JSON.stringify(value)}\n`;
  }
}

export const progressField = z.enum(["true", "false"]).default("false");
const progressQuerySchema = z.object({ progress: progressField });

/** Remembers the progress of a scan. `getProgressLine` is undefined if the client did not request progress. */
export function createProgressLines(progress: z.output<typeof progressField>) {
  let latestProgress: ScanProgress = { read: 0, share: 0 };
  return {
    onProgress: (scanProgress: ScanProgress) => {
      latestProgress = scanProgress;
    },
    getProgressLine: progress === "true" ? () => `${JSON.stringify({ progress: latestProgress })}\n` : undefined,
  };
}

/** The response is the same for a missing stream and for a stream that the auditor may not see. */
function throwApiError(error: unknown): never {
  if (error instanceof StreamNotFoundError) throw new ApiError(404, "stream_not_found");
  if (error instanceof UnreadableStreamError) throw new ApiError(409, "stream_not_readable", { cause: error });
  throw error;
}
