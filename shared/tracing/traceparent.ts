import { traceparent } from "../domain/events/fields.ts";

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
