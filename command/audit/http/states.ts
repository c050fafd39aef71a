import type { z } from "zod";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { replay, replayQuery, type StreamReading, UnreadableStreamError } from "../state/replay.ts";
import { diff, diffQuery, stateAt, stateQuery } from "../state/state-at.ts";
import { type AuditContext, readQuery, recordRequestAccess } from "./audited-query.ts";
import type { AuditDependencies } from "./events.ts";
import { type TakeSlot, withSlot } from "./scan-slots.ts";

/** States have separate slots, so that they do not wait for scans. */
type StateDependencies = AuditDependencies & { takeStateSlot: TakeSlot };

/** GET /audit/v1/state: the state of a stream at a point in its history. */
export function sendState(dependencies: StateDependencies): (ctx: AuditContext) => Promise<void> {
  return sendObject(dependencies, "state", stateQuery, stateAt);
}

/** GET /audit/v1/diff: the differences between two points in the history of a stream. */
export function sendDiff(dependencies: StateDependencies): (ctx: AuditContext) => Promise<void> {
  return sendObject(dependencies, "diff", diffQuery, diff);
}

/** Answers a query about one stream. A stream outside the auditor's limit is 404, as if it did not exist. */
function sendObject<Schema extends z.ZodType>(
  { log, client, takeStateSlot }: StateDependencies,
  action: AuditAction,
  schema: Schema,
  find: (query: z.output<Schema>, reading: StreamReading) => Promise<object | undefined>,
): (ctx: AuditContext) => Promise<void> {
  return async (ctx) => {
    const query = readQuery(ctx.query, schema);
    const release = takeStateSlot(ctx.state.auditor.id);
    try {
      await recordRequestAccess(log, ctx, action);
      const found = await find(query, { client, isVisible: ctx.state.isVisible }).catch(unreadable);
      if (!found) throw new ApiError(404, "stream_not_found");
      ctx.body = { ok: true, ...found };
    } finally {
      release();
    }
  };
}

/** GET /audit/v1/replay: each event of a stream with its changes and the resulting state, one per line. */
export function streamReplay({
  log,
  client,
  takeSlot,
}: AuditDependencies): (ctx: AuditContext) => Promise<void> {
  return async (ctx) => {
    const { stream } = readQuery(ctx.query, replayQuery);
    await withSlot(ctx, takeSlot, async () => {
      await recordRequestAccess(log, ctx, "replay");
      const steps = replay(stream, { client, isVisible: ctx.state.isVisible });
      const first = await steps.next().catch(unreadable);
      if (first.done) throw new ApiError(404, "stream_not_found");
      return { lines: toLines(first.value, steps) };
    });
  };
}

async function* toLines(first: object, rest: AsyncIterable<object>): AsyncGenerator<string, void> {
  let count = 1;
  yield `${JSON.stringify(first)}\n`;
  for await (const step of rest) {
    count += 1;
    yield `${JSON.stringify(step)}\n`;
  }
  yield `${JSON.stringify({ end: { count } })}\n`;
}

function unreadable(error: unknown): never {
  if (error instanceof UnreadableStreamError)
    throw new ApiError(409, "stream_not_readable", { cause: error });
  throw error;
}
