import type { z } from "zod";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { replayQuerySchema, replayStream, type StreamReadOptions, UnreadableStreamError } from "../state/replay.ts";
import { compareStates, diffQuerySchema, getStateAt, stateQuerySchema } from "../state/state-at.ts";
import { type AuditHandler, readQuery, recordRequestAccess } from "./audited-query.ts";
import type { AuditDependencies } from "./events.ts";
import { streamWithSlot, type TakeSlot } from "./scan-slots.ts";

/** State queries have separate slots, so that scans do not delay them. */
type StateDependencies = AuditDependencies & { takeStateSlot: TakeSlot };

/** GET /audit/v1/state: the state of a stream at a point in the stream's history. */
export function sendState(dependencies: StateDependencies): AuditHandler {
  return sendQueryResult(dependencies, "state", stateQuerySchema, getStateAt);
}

/** GET /audit/v1/diff: the differences between the states of a stream at two points in the stream's history. */
export function sendDiff(dependencies: StateDependencies): AuditHandler {
  return sendQueryResult(dependencies, "diff", diffQuerySchema, compareStates);
}

/** Throws the same 404 error whether the stream does not exist or the auditor may not see it. */
function sendQueryResult<Schema extends z.ZodType>(
  { log, client, dataKeys, takeStateSlot }: StateDependencies,
  action: AuditAction,
  schema: Schema,
  runQuery: (query: z.output<Schema>, readOptions: StreamReadOptions) => Promise<object | undefined>,
): AuditHandler {
  return async (ctx) => {
    const query = readQuery(ctx.query, schema);
    const releaseSlot = takeStateSlot(ctx.state.auditor.id);
    try {
      await recordRequestAccess(log, ctx, action);
      const { isVisible } = ctx.state;
      const queryResult = await runQuery(query, { client, dataKeys, isVisible }).catch(throwStreamNotReadable);
      if (!queryResult) throw new ApiError(404, "stream_not_found");
      ctx.body = { ok: true, ...queryResult };
    } finally {
      releaseSlot();
    }
  };
}

/**
 * GET /audit/v1/replay: each event of a stream, the fields that the event changed, and the resulting state; one event
 * per line.
 */
export function streamReplay({ log, client, dataKeys, takeSlot }: AuditDependencies): AuditHandler {
  return async (ctx) => {
    const { stream } = readQuery(ctx.query, replayQuerySchema);
    await streamWithSlot(ctx, takeSlot, async () => {
      await recordRequestAccess(log, ctx, "replay");
      const steps = replayStream(stream, { client, dataKeys, isVisible: ctx.state.isVisible });
      // The first event is replayed before the response starts, so that a missing stream still results in a 404.
      const firstStep = await steps.next().catch(throwStreamNotReadable);
      if (firstStep.done) throw new ApiError(404, "stream_not_found");
      return { lines: toLines(firstStep.value, steps) };
    });
  };
}

async function* toLines(firstStep: object, laterSteps: AsyncIterable<object>): AsyncGenerator<string, void> {
  let count = 1;
  yield `${JSON.stringify(firstStep)}\n`;
  for await (const step of laterSteps) {
    count += 1;
    yield `${JSON.stringify(step)}\n`;
  }
  yield `${JSON.stringify({ end: { count } })}\n`;
}

/** Converts {@link UnreadableStreamError} to {@link ApiError} 409. Rethrows any other error. */
function throwStreamNotReadable(error: unknown): never {
  if (error instanceof UnreadableStreamError) throw new ApiError(409, "stream_not_readable", { cause: error });
  throw error;
}
