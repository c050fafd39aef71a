import { z } from "zod";
import type { AuditEvent } from "../log/audit-event.ts";
import { streamField, timeBasisField } from "../queries/query-fields.ts";
import { type Change, changesBetween } from "./changes.ts";
import { isUpTo, type Point, streamPointField } from "./point.ts";
import { type StreamReading, walk } from "./replay.ts";

export const stateQuery = z.strictObject({
  stream: streamField,
  at: streamPointField.prefault("end"),
  by: timeBasisField,
});
export type StateQuery = z.output<typeof stateQuery>;

export const diffQuery = z.strictObject({
  stream: streamField,
  from: streamPointField.prefault("start"),
  to: streamPointField.prefault("end"),
  by: timeBasisField,
});
export type DiffQuery = z.output<typeof diffQuery>;

/** The last event that is included in a state. */
type LastEvent = Pick<AuditEvent, "revision" | "position" | "type" | "occurredAt" | "storedAt">;

export interface StateAt {
  stream: string;
  /** Null before the first event. */
  last: LastEvent | null;
  /** Null before the first visible event. */
  state: unknown;
}

export interface Diff {
  stream: string;
  from: LastEvent | null;
  to: LastEvent | null;
  changes: Change[];
}

/**
 * Returns the state of a stream at a point in its history, computed by the service's own code. For a time, the state
 * includes the events that had occurred (or had been stored) by then, in stream order.
 *
 * @returns undefined if the stream does not exist for this reader
 * @throws {UnreadableStreamError}
 * @throws {LogUnavailableError}
 */
export async function stateAt(query: StateQuery, reading: StreamReading): Promise<StateAt | undefined> {
  const { stream } = query;
  const found = await foldUpTo(query.stream, query.at, query.by, reading);
  return found && { stream, last: found.last, state: found.state ?? null };
}

/**
 * Returns the differences between two points in the history of a stream. Returns and throws as {@link stateAt} does.
 */
export async function diff(query: DiffQuery, reading: StreamReading): Promise<Diff | undefined> {
  const { stream, by } = query;
  const one = await foldUpTo(stream, query.from, by, reading);
  const other = await foldUpTo(stream, query.to, by, reading);
  if (!one || !other) return undefined;
  return { stream, from: one.last, to: other.last, changes: changesBetween(one.state, other.state) };
}

async function foldUpTo(stream: string, point: Point, by: StateQuery["by"], reading: StreamReading) {
  const wanted = isUpTo(point, by);
  let exists = false;
  const picks = (event: AuditEvent) => {
    exists = true;
    return wanted(event);
  };
  let last: LastEvent | null = null;
  let state: unknown;
  for await (const step of walk(stream, reading, picks)) {
    const { revision, position, type, occurredAt, storedAt } = step.event;
    last = { revision, position, type, occurredAt, storedAt };
    state = step.after;
  }
  return exists ? { last, state } : undefined;
}
