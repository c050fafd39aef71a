import { z } from "zod";
import { instant } from "../../../shared/domain/events/fields.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { getEventTime, streamField, type TimeBasis, timeBasisField } from "../queries/query-fields.ts";
import { type Change, findChanges } from "./changes.ts";
import { foldStream, type StreamReadOptions } from "./replay.ts";

/** A point in the history of a stream. */
type Point =
  | { kind: "start" | "end" }
  | { kind: "revision"; revision: number }
  | { kind: "position"; position: bigint }
  | { kind: "time"; time: string };

/**
 * A point in the history of a stream, as text: `3` or `revision:3`, `position:8812`, a date-time or `time:…`, `start`
 * (before the first event) or `end`.
 */
const streamPointField = z.string().transform((text, ctx): Point => {
  const [kind, value] = /^(revision|position|time):(.*)$/.exec(text)?.slice(1) ?? [undefined, text];
  if (text === "start" || text === "end") return { kind: text };
  if (kind !== "position" && kind !== "time" && /^\d{1,15}$/.test(value ?? "")) {
    return { kind: "revision", revision: Number(value) };
  }
  if (kind === "position" && /^\d{1,20}$/.test(value ?? "")) return { kind, position: BigInt(value ?? "") };
  const time = kind === undefined || kind === "time" ? instant.safeParse(value) : undefined;
  if (time?.success) return { kind: "time", time: time.data };
  ctx.addIssue({
    code: "custom",
    message: "must be a revision, position:<n>, a date-time with an offset, `start` or `end`",
  });
  return z.NEVER;
});

export const stateQuerySchema = z.strictObject({
  stream: streamField,
  at: streamPointField.prefault("end"),
  by: timeBasisField,
});
type StateQuery = z.output<typeof stateQuerySchema>;

export const diffQuerySchema = z.strictObject({
  stream: streamField,
  from: streamPointField.prefault("start"),
  to: streamPointField.prefault("end"),
  by: timeBasisField,
});
type DiffQuery = z.output<typeof diffQuerySchema>;

/** Summary of the last event that was folded into a state. */
type LastEvent = Pick<AuditEvent, "revision" | "position" | "type" | "occurredAt" | "storedAt">;

export interface StreamState {
  stream: string;
  /** Last event that was folded into the state; null if the point is before the first event. */
  last: LastEvent | null;
  /** Null if the reader may not see any event up to the point. */
  state: unknown;
}

export interface StateDiff {
  stream: string;
  from: LastEvent | null;
  to: LastEvent | null;
  changes: Change[];
}

/**
 * Returns the state of a stream at a point in the stream's history, computed with the same code as in the service. If
 * the point is a time, folds the events that had occurred (or had been stored) by then, in stream order.
 *
 * @returns undefined if the stream does not exist, or if the reader may see none of its events
 * @throws {UnreadableStreamError} if this release cannot read an event of the stream
 * @throws {LogUnavailableError} if the event log cannot be read
 */
export async function getStateAt(query: StateQuery, readOptions: StreamReadOptions): Promise<StreamState | undefined> {
  const { stream } = query;
  const foldedStream = await foldUpToPoint(stream, query.at, query.by, readOptions);
  return foldedStream && { stream, last: foldedStream.lastEvent, state: foldedStream.state ?? null };
}

/**
 * Returns the differences between the states of a stream at two points in the stream's history. Returns undefined and
 * throws errors as {@link getStateAt} does.
 */
export async function compareStates(query: DiffQuery, readOptions: StreamReadOptions): Promise<StateDiff | undefined> {
  const { stream, by: timeBasis } = query;
  const from = await foldUpToPoint(stream, query.from, timeBasis, readOptions);
  const to = await foldUpToPoint(stream, query.to, timeBasis, readOptions);
  return from && to && { stream, from: from.lastEvent, to: to.lastEvent, changes: findChanges(from.state, to.state) };
}

async function foldUpToPoint(stream: string, point: Point, timeBasis: TimeBasis, readOptions: StreamReadOptions) {
  const isUpToPoint = createPointFilter(point, timeBasis);
  let hasVisibleEvent = false;
  const isIncluded = (event: AuditEvent) => {
    hasVisibleEvent = true;
    return isUpToPoint(event);
  };
  let lastEvent: LastEvent | null = null;
  let state: unknown;
  for await (const { event, stateAfter } of foldStream(stream, readOptions, isIncluded)) {
    const { revision, position, type, occurredAt, storedAt } = event;
    lastEvent = { revision, position, type, occurredAt, storedAt };
    state = stateAfter;
  }
  return hasVisibleEvent ? { lastEvent, state } : undefined;
}

/** Creates a predicate that returns true for events at or before a point. */
function createPointFilter(point: Point, timeBasis: TimeBasis): (event: AuditEvent) => boolean {
  switch (point.kind) {
    case "start":
      return () => false;
    case "end":
      return () => true;
    case "revision":
      return ({ revision }) => revision <= point.revision;
    case "position":
      return ({ position }) => BigInt(position) <= point.position;
    case "time":
      return (event) => getEventTime(event, timeBasis) <= point.time;
  }
}
