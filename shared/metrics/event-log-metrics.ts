import { Counter, Histogram, type Registry } from "prom-client";
import { categories, getLengthShare } from "../domain/events/catalog.ts";
import { type EventLog, LogUnavailableError, WrongExpectedRevisionError } from "../eventstore/log.ts";

type Request = "append" | "read";
type Outcome = "ok" | "conflict" | "unavailable" | "error";

/** Upper bounds of the histogram's buckets, in seconds. A request takes at most 4 s, a repeated append 8 s. */
const DURATION_BUCKETS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10];

/** Registers the metrics of event log requests. Returns a function that wraps a log to record its requests. */
export function createEventLogMeter(registry: Registry): (log: EventLog) => EventLog {
  const registers = [registry];
  const durations = new Histogram({
    name: "event_log_request_duration_seconds",
    help: "Duration of requests to the event log, by request (append or read of one stream) and outcome.",
    labelNames: ["request", "outcome"] as const,
    buckets: DURATION_BUCKETS,
    registers,
  });
  const events = new Counter({
    name: "event_log_events_total",
    help: "Events that were appended to streams of the event log or read from them, by request.",
    labelNames: ["request"] as const,
    registers,
  });
  const longStreamChanges = new Counter({
    name: "event_log_long_stream_changes_total",
    help: "Changes of streams with at least half of the maximum number of events, by category. Includes refused changes.",
    labelNames: ["category"] as const,
    registers,
  });
  for (const { name: category } of categories) longStreamChanges.inc({ category }, 0);
  for (const request of ["append", "read"] as const) {
    events.inc({ request }, 0);
    durations.zero({ request, outcome: "ok" });
    durations.zero({ request, outcome: "unavailable" });
  }

  async function measure<T>(request: Request, response: Promise<T>, countEvents: (result: T) => number): Promise<T> {
    const startedAt = performance.now();
    const record = (outcome: Outcome) =>
      durations.observe({ request, outcome }, (performance.now() - startedAt) / 1_000);
    try {
      const result = await response;
      record("ok");
      events.inc({ request }, countEvents(result));
      return result;
    } catch (error) {
      record(classifyError(error));
      throw error;
    }
  }

  return (log) => ({
    read: (stream, lastRevision, signal) =>
      measure("read", log.read(stream, lastRevision, signal), ({ length }) => length),
    readLast: (stream, maxRevision) => measure("read", log.readLast(stream, maxRevision), (event) => (event ? 1 : 0)),
    append(stream, expectedRevision, newEvents) {
      const category = stream.slice(0, stream.indexOf("-"));
      if (getLengthShare(stream, expectedRevision, newEvents) >= 0.5) longStreamChanges.inc({ category });
      return measure("append", log.append(stream, expectedRevision, newEvents), () => newEvents.length);
    },
  });
}

function classifyError(error: unknown): Outcome {
  if (error instanceof WrongExpectedRevisionError) return "conflict";
  return error instanceof LogUnavailableError ? "unavailable" : "error";
}
