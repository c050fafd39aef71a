import { z } from "zod";
import { instant } from "../../../shared/domain/events/fields.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { type AuditQuery, type ReadOptions, StreamNotFoundError } from "../queries/audit-query.ts";
import { getEventTime, streamField, type TimeBasis, timeBasisField } from "../queries/query-fields.ts";
import { type Change, findChanges } from "./changes.ts";
import { foldStream, UnreadableStreamError } from "./replay.ts";

/** Returns true if an event is at or before a point in the history of its stream. */
type IsUpToPoint = (event: AuditEvent, timeBasis: TimeBasis) => boolean;

/**
 * A point in the history of a stream, as text: a revision, `position:8812`, a date-time, `start` (before the first
 * event) or `end`.
 */
const streamPointField = z.string().transform((text, ctx): IsUpToPoint => {
  if (text === "start" || text === "end") return () => text === "end";
  if (/^\d{1,15}$/.test(text)) return ({ revision }) => revision <= Number(text);
  const lastPosition = /^position:(\d{1,20})$/.exec(text)?.[1];
  if (lastPosition !== undefined) return ({ position }) => BigInt(position) <= BigInt(lastPosition);
  const time = instant.safeParse(text);
  if (time.success) return (event, timeBasis) => getEventTime(event, timeBasis) <= time.data;
  ctx.addIssue({
    code: "custom",
    message: "must be a revision, position:<n>, a date-time, `start` or `end`",
  });
  return z.NEVER;
});

const stateQuerySchema = z.strictObject({
  stream: streamField,
  at: streamPointField.prefault("end"),
  by: timeBasisField,
});

const diffQuerySchema = z.strictObject({
  stream: streamField,
  from: streamPointField.prefault("start"),
  to: streamPointField.prefault("end"),
  by: timeBasisField,
});

type LastEvent = Pick<AuditEvent, "revision" | "position" | "type" | "occurredAt" | "storedAt">;

export interface StreamState {
  stream: string;
  /** Last event that was folded into the state; null if the point is before the first event. */
  last: LastEvent | null;
  state: unknown;
  /** Reason why personal fields have neutral values, although the data was not erased. */
  problem?: string;
}

export interface StateDiff {
  stream: string;
  from: LastEvent | null;
  to: LastEvent | null;
  changes: Change[];
  problem?: string;
}

/**
 * Returns the state of a stream at a point in its history, computed with the same fold functions as in the commands. If
 * the point is a time, folds the events that had occurred (or had been stored) by then, in stream order. Throws the
 * errors of {@link foldStream}, {@link StreamNotFoundError}, and {@link UnreadableStreamError}.
 */
export const stateQuery: AuditQuery<typeof stateQuerySchema, StreamState> = {
  action: "state",
  schema: stateQuerySchema,
  run: async ({ stream, at, by }, options) => {
    const { lastEvent, state, ...rest } = await foldUpToPoint(stream, at, by, options);
    return { stream, last: lastEvent, state: state ?? null, ...rest };
  },
};

/**
 * Returns the differences between the states of a stream at two points in the stream's history. Throws the errors of
 * {@link stateQuery}.
 */
export const diffQuery: AuditQuery<typeof diffQuerySchema, StateDiff> = {
  action: "diff",
  schema: diffQuerySchema,
  run: async ({ stream, from, to, by }, options) => {
    const start = await foldUpToPoint(stream, from, by, options);
    const { lastEvent, state, ...rest } = await foldUpToPoint(stream, to, by, options);
    return { stream, from: start.lastEvent, to: lastEvent, changes: findChanges(start.state, state), ...rest };
  },
};

async function foldUpToPoint(stream: string, isUpToPoint: IsUpToPoint, timeBasis: TimeBasis, options: ReadOptions) {
  let hasVisibleEvent = false;
  const isIncluded = (event: AuditEvent) => {
    hasVisibleEvent = true;
    return isUpToPoint(event, timeBasis);
  };
  let lastEvent: LastEvent | null = null;
  let state: unknown;
  let eventProblem: { problem?: string } = {};
  for await (const { event, stateAfter, problem } of foldStream(stream, options, isIncluded)) {
    if (problem !== undefined) throw new UnreadableStreamError(problem);
    const { revision, position, type, occurredAt, storedAt } = event;
    lastEvent = { revision, position, type, occurredAt, storedAt };
    state = stateAfter;
    if (event.problem !== undefined) eventProblem = { problem: event.problem };
  }
  if (!hasVisibleEvent) throw new StreamNotFoundError(stream);
  return { lastEvent, state, ...eventProblem };
}
