import { type Span, startSpan } from "../tracing/span.ts";

interface TraceableEvent {
  metadata: { traceparent?: string | undefined };
}

/**
 * Appends events, and records one span in each trace that they belong to. An append can contain events of several
 * requests. The metadata of an appended event refers to the span, so that spans of later steps become its children.
 */
export async function traceAppend<Event extends TraceableEvent, Result>(
  stream: string,
  events: readonly Event[],
  append: (events: readonly Event[]) => Promise<Result>,
): Promise<Result> {
  const spansByParent = startAppendSpans(stream, events);
  if (spansByParent.size === 0) return append(events);
  const endSpans = (error?: unknown) => {
    for (const span of spansByParent.values()) span.end(error);
  };
  try {
    const appendResult = await append(events.map((event) => replaceTraceparent(event, spansByParent)));
    endSpans();
    return appendResult;
  } catch (error) {
    endSpans(error);
    throw error;
  }
}

/** @returns the spans, by the `traceparent` of their parents */
function startAppendSpans(stream: string, events: readonly TraceableEvent[]): Map<string, Span> {
  const spansByParent = new Map<string, Span>();
  for (const { metadata } of events) {
    const { traceparent } = metadata;
    if (traceparent === undefined || spansByParent.has(traceparent)) continue;
    // The name contains only the stream's category, because the rest of a stream's name identifies one object.
    const span = startSpan(`append ${stream.split("-")[0]}`, "producer", traceparent, { "event.count": events.length });
    if (span) spansByParent.set(traceparent, span);
  }
  return spansByParent;
}

function replaceTraceparent<Event extends TraceableEvent>(
  event: Event,
  spansByParent: ReadonlyMap<string, Span>,
): Event {
  const span = spansByParent.get(event.metadata.traceparent ?? "");
  return span ? { ...event, metadata: { ...event.metadata, traceparent: span.traceparent } } : event;
}
