import { traceparent } from "../domain/events/fields.ts";

/** Spans of the service. While tracing is off, no span is created, and the OpenTelemetry SDK is not loaded. */

/** Role of a span in its trace, with the names that OpenTelemetry uses. */
export type SpanKind = "server" | "client" | "producer" | "consumer";

/** Values must not contain data of tenants, such as names, URLs of partners or bodies. */
export type SpanAttributes = Record<string, string | number>;

/** A step of a trace. Every started span must be ended. */
export interface Span {
  /** W3C trace context that makes other spans children of this span. */
  readonly traceparent: string;
  /** Adds attributes, or replaces attributes of the same names. */
  setAttributes(attributes: SpanAttributes): void;
  setName(name: string): void;
  /**
   * Ends the span.
   *
   * @param failure marks the span as failed: an error, of which only the name is recorded, or the name of the failure
   */
  end(failure?: unknown): void;
}

export interface SpanOptions {
  kind: SpanKind;
  /** W3C trace context of the parent. If absent, the span starts a trace. */
  parent?: string | undefined;
  /** W3C trace context of a span in another trace, to which the span refers. */
  link?: string | undefined;
  attributes?: SpanAttributes | undefined;
}

/** Ends a span when a promise settles. */
export function endWith(span: Span, promise: Promise<unknown>): void {
  promise.then(
    () => span.end(),
    (error: unknown) => span.end(error),
  );
}

export type StartSpan = (name: string, options: SpanOptions) => Span;

let startActualSpan: StartSpan | undefined;

/** Sets the function that creates spans. If undefined, tracing is off. */
export function setSpanStarter(startSpan: StartSpan | undefined): void {
  startActualSpan = startSpan;
}

export function isTracing(): boolean {
  return startActualSpan !== undefined;
}

/**
 * Starts a trace with a first span.
 *
 * @param link W3C trace context of a span in the caller's trace
 * @returns undefined if tracing is off
 */
export function startTrace(name: string, kind: SpanKind, link?: string): Span | undefined {
  return startActualSpan?.(name, { kind, link });
}

/**
 * Starts a span in an existing trace.
 *
 * @param parent W3C trace context of the parent
 * @returns undefined if tracing is off, or the work belongs to no trace
 */
export function startSpan(
  name: string,
  kind: SpanKind,
  parent: string | null | undefined,
  attributes?: SpanAttributes,
): Span | undefined {
  if (parent === undefined || parent === null) return undefined;
  return startActualSpan?.(name, { kind, parent, attributes });
}

/** Parts of a W3C trace context. */
export interface TraceContext {
  /** 32 hexadecimal digits. */
  traceId: string;
  /** 16 hexadecimal digits. */
  spanId: string;
  /** If bit 1 is set, the trace is recorded. */
  flags: number;
}

/** Returns a value if it is a valid `traceparent` of version 00. Otherwise, the value must be ignored. */
export function checkTraceparent(value: unknown): string | undefined {
  return traceparent.safeParse(value).data;
}

/** Parses a valid `traceparent`. */
export function parseTraceparent(value: string): TraceContext {
  const [, traceId = "", spanId = "", flags = ""] = value.split("-");
  return { traceId, spanId, flags: Number.parseInt(flags, 16) };
}

export function formatTraceparent({ traceId, spanId, flags }: TraceContext): string {
  return `00-${traceId}-${spanId}-${flags.toString(16).padStart(2, "0")}`;
}
