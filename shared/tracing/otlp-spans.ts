/** Creates spans with the OpenTelemetry SDK, which also encodes and sends them. Only `start-tracing.ts` loads this module, and only if tracing is on. */
import {
  type Context,
  type Link,
  type Span as OtelSpan,
  SpanKind as OtelSpanKind,
  ROOT_CONTEXT,
  type SpanContext,
  SpanStatusCode,
  trace,
} from "@opentelemetry/api";
import { OTLPTraceExporter } from "@opentelemetry/exporter-trace-otlp-http";
import { resourceFromAttributes } from "@opentelemetry/resources";
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  type SpanExporter,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from "@opentelemetry/sdk-trace";
import type { Logger } from "../runtime/logger.ts";
import { settlesWithin } from "../runtime/timeout.ts";
import {
  formatTraceparent,
  parseTraceparent,
  type Span,
  type SpanKind,
  type SpanOptions,
  type StartSpan,
} from "./span.ts";

export interface OtlpOptions {
  /** URL of the collector, without the path `/v1/traces`. */
  endpoint: string;
  /** Headers of each request to the collector. */
  headers: Record<string, string>;
  /** Attributes of the process, such as `service.name`. */
  resourceAttributes: Record<string, string>;
  /** Share of traces that are recorded, from 0 to 1. */
  sampleRatio: number;
  logger: Logger;
}

/** Maximum number of ended spans that wait for the collector. Further spans are dropped. */
export const MAX_QUEUED_SPANS = 2_048;

/** Maximum number of spans in one request to the collector. */
export const MAX_BATCH_SIZE = 512;

/** Time after which a span is sent, even if the batch is not full. */
const SEND_DELAY_MS = 1_000;

/** Time limit for one request to the collector, with its retries. */
const EXPORT_TIMEOUT_MS = 5_000;

/** Time limit for sending the remaining spans when the service stops. */
const FLUSH_TIMEOUT_MS = 1_000;

const KINDS: Record<SpanKind, OtelSpanKind> = {
  server: OtelSpanKind.SERVER,
  client: OtelSpanKind.CLIENT,
  producer: OtelSpanKind.PRODUCER,
  consumer: OtelSpanKind.CONSUMER,
};

/** Creates the function that starts spans, and the function that sends the remaining spans when the service stops. */
export function createOtlpSpans(options: OtlpOptions): { startSpan: StartSpan; stop: () => Promise<void> } {
  const { endpoint, headers, resourceAttributes, sampleRatio, logger } = options;
  const exporter = new OTLPTraceExporter({
    url: `${endpoint.replace(/\/+$/, "")}/v1/traces`,
    headers,
    timeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const processor = new BatchSpanProcessor({
    exporter: logFailures(exporter, logger),
    maxQueueSize: MAX_QUEUED_SPANS,
    maxExportBatchSize: MAX_BATCH_SIZE,
    scheduledDelayMillis: SEND_DELAY_MS,
    exportTimeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const provider = new TracerProvider({
    resource: resourceFromAttributes(resourceAttributes),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(sampleRatio) }),
    spanProcessors: [processor],
  });
  const tracer = provider.getTracer("clinic-service");
  return {
    startSpan: (name, spanOptions) => {
      const { kind, parent, link, attributes = {} } = spanOptions;
      const spanContext = { kind: KINDS[kind], attributes, links: toLinks(link) };
      return toSpan(tracer.startSpan(name, spanContext, toContext(parent)));
    },
    async stop() {
      const shutdownPromise = provider.shutdown().catch((error: unknown) => {
        logger.debug({ error }, "The last spans could not be sent.");
      });
      await settlesWithin(shutdownPromise, FLUSH_TIMEOUT_MS);
    },
  };
}

/** Logs when the collector becomes unavailable and when it is available again, so that an outage fills no log. */
function logFailures(exporter: SpanExporter, logger: Logger): SpanExporter {
  let isFailing = false;
  return {
    export(spans, onResult) {
      exporter.export(spans, (result) => {
        const hasFailed = result.error !== undefined;
        if (hasFailed && !isFailing)
          logger.warn({ error: result.error }, "The trace collector is unavailable. Spans are dropped.");
        if (!hasFailed && isFailing) logger.info("The trace collector is available again.");
        isFailing = hasFailed;
        onResult(result);
      });
    },
    shutdown: () => exporter.shutdown(),
  };
}

function toContext(parent: SpanOptions["parent"]): Context {
  return parent === undefined ? ROOT_CONTEXT : trace.setSpanContext(ROOT_CONTEXT, toSpanContext(parent));
}

function toLinks(link: SpanOptions["link"]): Link[] {
  return link === undefined ? [] : [{ context: toSpanContext(link) }];
}

function toSpanContext(traceparent: string): SpanContext {
  const { traceId, spanId, flags } = parseTraceparent(traceparent);
  return { traceId, spanId, traceFlags: flags, isRemote: true };
}

function toSpan(span: OtelSpan): Span {
  const { traceId, spanId, traceFlags } = span.spanContext();
  return {
    traceparent: formatTraceparent({ traceId, spanId, flags: traceFlags }),
    setAttributes: (attributes) => void span.setAttributes(attributes),
    setName: (name) => void span.updateName(name),
    end(failure) {
      if (failure !== undefined) {
        // The message of an error could contain data of a tenant.
        span.setAttribute("error.type", failure instanceof Error ? failure.name : String(failure));
        span.setStatus({ code: SpanStatusCode.ERROR });
      }
      span.end();
    },
  };
}
