/** Spans of the service. While tracing is off, no span is created, and OpenTelemetry is not loaded. */
import type * as OpenTelemetry from "@opentelemetry/api";
import { traceparent as traceparentSchema } from "../domain/events/fields.ts";

type Attributes = OpenTelemetry.Attributes;

export interface Tracing {
  tracer: OpenTelemetry.Tracer;
  api: typeof OpenTelemetry;
}

let tracing: Tracing | undefined;

/** Starts tracing, or stops it if the parameter is undefined. */
export function setTracing(newTracing: Tracing | undefined): void {
  tracing = newTracing;
}

export function isTracing(): boolean {
  return tracing !== undefined;
}

/** Role of a span in its trace, with the names that OpenTelemetry uses. */
type Kind = "server" | "client" | "producer" | "consumer";

/** A step of a trace. Every started span must be ended. */
export class Span {
  readonly #span: OpenTelemetry.Span;
  readonly #errorCode: OpenTelemetry.SpanStatusCode;
  /** W3C trace context that makes other spans children of this span. */
  readonly traceparent: string;

  constructor(span: OpenTelemetry.Span, errorCode: OpenTelemetry.SpanStatusCode) {
    this.#span = span;
    this.#errorCode = errorCode;
    this.traceparent = formatTraceparent(span.spanContext());
  }

  /**
   * Adds attributes, or replaces attributes of the same names.
   *
   * @param attributes must not contain data of tenants, such as names, URLs of partners or bodies
   */
  setAttributes(attributes: Attributes): void {
    this.#span.setAttributes(attributes);
  }

  setName(name: string): void {
    this.#span.updateName(name);
  }

  /**
   * Ends the span.
   *
   * @param failure error or name of a failure; undefined if the step succeeded. Only the name of an error is recorded
   */
  end(failure?: unknown): void {
    if (failure !== undefined) {
      // The message of an error could contain data of a tenant.
      this.#span.setAttribute("error.type", failure instanceof Error ? failure.name : String(failure));
      this.#span.setStatus({ code: this.#errorCode });
    }
    this.#span.end();
  }
}

export function endWith(span: Span, promise: Promise<unknown>): void {
  promise.then(
    () => span.end(),
    (error: unknown) => span.end(error),
  );
}

/**
 * Starts a trace with a first span.
 *
 * @param link W3C trace context of a span to link to
 * @returns undefined if tracing is off
 */
export function startTrace(name: string, kind: Kind, link?: string): Span | undefined {
  const links = link === undefined ? [] : [{ context: parseTraceparent(link) }];
  return tracing && start(tracing, name, kind, { links });
}

/**
 * Starts a span in an existing trace.
 *
 * @returns undefined if tracing is off, or the work belongs to no trace
 */
export function startSpan(
  name: string,
  kind: Kind,
  parent: string | null | undefined,
  attributes: Attributes = {},
): Span | undefined {
  if (!tracing || parent === undefined || parent === null) return undefined;
  return start(tracing, name, kind, { attributes }, parent);
}

function start(
  { tracer, api }: Tracing,
  name: string,
  kind: Kind,
  options: OpenTelemetry.SpanOptions,
  parent?: string,
): Span {
  const { ROOT_CONTEXT, SpanKind, SpanStatusCode, trace } = api;
  const context = parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, parseTraceparent(parent));
  const spanKind = SpanKind[kind.toUpperCase() as Uppercase<Kind>];
  return new Span(tracer.startSpan(name, { ...options, kind: spanKind }, context), SpanStatusCode.ERROR);
}

/** Returns the value if it is a valid `traceparent` of version 00, otherwise undefined. */
export function checkTraceparent(value: unknown): string | undefined {
  return traceparentSchema.safeParse(value).data;
}

export function parseTraceparent(value: string): OpenTelemetry.SpanContext {
  const [, traceId = "", spanId = "", flags = ""] = value.split("-");
  return { traceId, spanId, traceFlags: Number.parseInt(flags, 16), isRemote: true };
}

export function formatTraceparent({ traceId, spanId, traceFlags }: OpenTelemetry.SpanContext): string {
  return `00-${traceId}-${spanId}-${traceFlags.toString(16).padStart(2, "0")}`;
}
