import { z } from "zod";
import { streamField } from "../ask/stream.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { type Change, changesBetween } from "./changes.ts";
import { type StreamReading, walk } from "./walk.ts";

export const replayQuestion = z.strictObject({ stream: streamField });

/** An event, what it changed, and the state that it left. */
export interface ReplayStep {
  event: AuditEvent;
  changes: Change[];
  state: unknown;
}

/** Steps through a stream. Throws as {@link walk} does. */
export async function* replay(stream: string, reading: StreamReading): AsyncGenerator<ReplayStep, void> {
  for await (const { event, before, after } of walk(stream, reading)) {
    yield { event, changes: changesBetween(before, after), state: after ?? null };
  }
}
