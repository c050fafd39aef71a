import type { RecordedEvent } from "../../shared/eventstore/log.ts";
import { isTracing, startSpan } from "../../shared/tracing/span.ts";

/** Age of an event from which on its projection is not traced. Its trace ended long ago. Milliseconds. */
const MAX_AGE_MS = 60 * 60_000;

/**
 * Applies events with one span for each traced event. All spans of a batch have the same duration, because a batch is
 * one transaction. Old events are not traced, so that new read models do not create a span for each event of the log.
 */
export async function traceProjection(events: readonly RecordedEvent[], apply: () => Promise<void>): Promise<void> {
  if (!isTracing()) return apply();
  const minTime = Date.now() - MAX_AGE_MS;
  const spans = events
    .filter(({ metadata }) => Date.parse(metadata.occurredAt) > minTime)
    .map(({ type, metadata }) => startSpan(`project ${type}`, "consumer", metadata.traceparent));
  const endSpans = (error?: unknown) => {
    for (const span of spans) span?.end(error);
  };
  try {
    await apply();
    endSpans();
  } catch (error) {
    endSpans(error);
    throw error;
  }
}
