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

/** The last event that a state holds. */
type LastEvent = Pick<AuditEvent, "revision" | "position" | "type" | "occurredAt" | "storedAt">;

export interface StateAt {
  stream: string;
  /** Null where nothing had happened yet. */
  last: LastEvent | null;
  /** Null where there was nothing, or the stream holds nothing that may be seen. */
  state: unknown;
}

export interface Diff {
  stream: string;
  from: LastEvent | null;
  to: LastEvent | null;
  changes: Change[];
}

/**
 * The state of a stream at a point, folded by the service's own code. At a time it is made of what had happened (or
 * been stored) by then, in the stream's order.
 *
 * @returns undefined where there is no such stream for this reader
 * @throws {UnreadableStream}
 * @throws {LogUnavailable}
 */
export async function stateAt(query: StateQuery, reading: StreamReading): Promise<StateAt | undefined> {
  const { stream } = query;
  const found = await foldUpTo(query.stream, query.at, query.by, reading);
  return found && { stream, last: found.last, state: found.state ?? null };
}

/** What differs between a stream's state at two points. Returns and throws as {@link stateAt} does. */
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
