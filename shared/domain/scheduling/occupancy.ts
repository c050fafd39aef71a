/** Time span in milliseconds since 1970. */
export interface TimeSpan {
  /** Inclusive. */
  fromMs: number;
  /** Exclusive. */
  toMs: number;
}

/** Time span in which an appointment or a hold takes one place of a resource. */
export interface Occupation extends TimeSpan {
  /** Id of the appointment or the hold. Overlapping occupations of one owner take only one place. */
  ownerId: string;
}

const ALWAYS: TimeSpan = { fromMs: Number.NEGATIVE_INFINITY, toMs: Number.POSITIVE_INFINITY };

/**
 * Returns the time spans in which a resource has no free place, in ascending order. A resource with the capacity n has
 * floor(n) places.
 */
export function findFullSpans(capacity: number, occupations: readonly Occupation[]): TimeSpan[] {
  const placeCount = Math.floor(capacity);
  if (placeCount < 1) return [ALWAYS];
  const spansByOwner = new Map<string, TimeSpan[]>();
  for (const { ownerId, ...span } of occupations)
    spansByOwner.set(ownerId, [...(spansByOwner.get(ownerId) ?? []), span]);
  const changes = [...spansByOwner.values()].flatMap((spans) =>
    joinSpans(spans).flatMap(({ fromMs, toMs }) => [
      { timeMs: fromMs, count: 1 },
      { timeMs: toMs, count: -1 },
    ]),
  );
  changes.sort((a, b) => a.timeMs - b.timeMs);
  const fullSpans: TimeSpan[] = [];
  let takenCount = 0;
  let timeMs = Number.NEGATIVE_INFINITY;
  for (const change of changes) {
    if (takenCount >= placeCount && timeMs < change.timeMs) fullSpans.push({ fromMs: timeMs, toMs: change.timeMs });
    takenCount += change.count;
    timeMs = change.timeMs;
  }
  return joinSpans(fullSpans);
}

/** Joins spans that overlap or touch. Returns them in ascending order. */
export function joinSpans(spans: readonly TimeSpan[]): TimeSpan[] {
  const joinedSpans: TimeSpan[] = [];
  for (const { fromMs, toMs } of [...spans].sort((a, b) => a.fromMs - b.fromMs)) {
    const lastSpan = joinedSpans.at(-1);
    if (lastSpan && fromMs <= lastSpan.toMs) lastSpan.toMs = Math.max(lastSpan.toMs, toMs);
    else joinedSpans.push({ fromMs, toMs });
  }
  return joinedSpans;
}

/**
 * Returns the parts of a span that no other span covers.
 *
 * @param others spans in ascending order that do not overlap
 */
export function subtractSpans({ fromMs, toMs }: TimeSpan, others: readonly TimeSpan[]): TimeSpan[] {
  const parts: TimeSpan[] = [];
  let restMs = fromMs;
  for (const other of others) {
    if (other.toMs <= restMs) continue;
    if (other.fromMs >= toMs) break;
    if (other.fromMs > restMs) parts.push({ fromMs: restMs, toMs: other.fromMs });
    restMs = other.toMs;
  }
  return restMs < toMs ? [...parts, { fromMs: restMs, toMs }] : parts;
}

export function overlaps(left: TimeSpan, right: TimeSpan): boolean {
  return left.fromMs < right.toMs && right.fromMs < left.toMs;
}
