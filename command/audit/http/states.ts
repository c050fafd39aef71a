import type { z } from "zod";
import type { AuditAction } from "../../../shared/domain/events/audit.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { replay, replayQuestion, type StreamReading, UnreadableStream } from "../state/replay.ts";
import { diff, diffQuestion, stateAt, stateQuestion } from "../state/state-at.ts";
import { type AuditContext, questionOf, recordedAccess } from "./audited-query.ts";
import type { Using } from "./events.ts";
import { type TakeSlot, withSlot } from "./scan-slots.ts";

/** States have slots of their own, so that they do not wait for scans. */
type UsingStates = Using & { takeStateSlot: TakeSlot };

/** GET /audit/v1/state: a stream's state at a point. */
export function answerState(using: UsingStates): (ctx: AuditContext) => Promise<void> {
  return answerObject(using, "state", stateQuestion, stateAt);
}

/** GET /audit/v1/diff: what differs between two points. */
export function answerDiff(using: UsingStates): (ctx: AuditContext) => Promise<void> {
  return answerObject(using, "diff", diffQuestion, diff);
}

/** One answer about one stream. A stream that does not exist for the auditor is 404, whoever it belongs to. */
function answerObject<Schema extends z.ZodType>(
  { log, client, takeStateSlot }: UsingStates,
  action: AuditAction,
  schema: Schema,
  find: (asked: z.output<Schema>, reading: StreamReading) => Promise<object | undefined>,
): (ctx: AuditContext) => Promise<void> {
  return async (ctx) => {
    const asked = questionOf(ctx.query, schema);
    const release = takeStateSlot(ctx.state.auditor.id);
    try {
      await recordedAccess(log, ctx, action);
      const found = await find(asked, { client, maySee: ctx.state.maySee }).catch(unreadable);
      if (!found) throw new ApiError(404, "stream_not_found");
      ctx.body = { ok: true, ...found };
    } finally {
      release();
    }
  };
}

/** GET /audit/v1/replay: each event of a stream, what it changed and the state that it left, a line each. */
export function answerReplay({ log, client, takeSlot }: Using): (ctx: AuditContext) => Promise<void> {
  return async (ctx) => {
    const { stream } = questionOf(ctx.query, replayQuestion);
    await withSlot(ctx, takeSlot, async () => {
      await recordedAccess(log, ctx, "replay");
      const steps = replay(stream, { client, maySee: ctx.state.maySee });
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
  if (error instanceof UnreadableStream) throw new ApiError(409, "stream_not_readable", { cause: error });
  throw error;
}
