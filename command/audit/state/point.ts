import { z } from "zod";
import { instant } from "../../../shared/domain/events/fields.ts";
import type { AuditEvent } from "../log/audit-event.ts";
import { getEventTime, type TimeBasis } from "../queries/query-fields.ts";

/** A point in the history of a stream. */
export type Point =
  | { kind: "start" | "end" }
  | { kind: "revision"; revision: number }
  | { kind: "position"; position: bigint }
  | { kind: "time"; time: string };

/**
 * A point in the history of a stream, as text: `3` or `revision:3`, `position:8812`, a date-time or `time:…`, `start`
 * (before the first event) or `end`.
 */
export const streamPointField = z.string().transform((text, ctx): Point => {
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

/** Creates a predicate that returns true for events at or before a point. */
export function createPointFilter(point: Point, timeBasis: TimeBasis): (event: AuditEvent) => boolean {
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
