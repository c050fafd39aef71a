/** Records spans with the OpenTelemetry SDK, which samples, batches and sends them. Only `start-tracing.ts` loads it. */
import * as api from "@opentelemetry/api";
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
import type { Tracing } from "./span.ts";
import type { TracingConfig } from "./start-tracing.ts";

/** Maximum number of ended spans that wait for the collector. Further spans are dropped. */
export const MAX_QUEUED_SPANS = 2_048;

export const MAX_BATCH_SIZE = 512;

/** Time after which a span is sent, even if the batch is not full. */
const SEND_DELAY_MS = 1_000;

const EXPORT_TIMEOUT_MS = 5_000;

const FLUSH_TIMEOUT_MS = 1_000;

/**
 * Starts the SDK. The returned `stop` sends the remaining spans.
 *
 * @param endpoint URL of the collector, without the path `/v1/traces`
 * @param processName see `startTracing`
 */
export function startOtlpTracing(
  endpoint: string,
  config: TracingConfig,
  processName: string,
  logger: Logger,
): Tracing & { stop: () => Promise<void> } {
  const exporter = new OTLPTraceExporter({
    url: `${endpoint.replace(/\/+$/, "")}/v1/traces`,
    headers: config.OTEL_EXPORTER_OTLP_HEADERS ?? {},
    timeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const processor = new BatchSpanProcessor({
    exporter: logFailures(exporter, logger),
    maxQueueSize: MAX_QUEUED_SPANS,
    maxExportBatchSize: MAX_BATCH_SIZE,
    scheduledDelayMillis: SEND_DELAY_MS,
    exportTimeoutMillis: EXPORT_TIMEOUT_MS,
  });
  const isSampled = config.OTEL_TRACES_SAMPLER === "parentbased_traceidratio";
  const root = new TraceIdRatioBasedSampler(isSampled ? config.OTEL_TRACES_SAMPLER_ARG : 1);
  const serviceName = config.OTEL_SERVICE_NAME ?? processName;
  const provider = new TracerProvider({
    resource: resourceFromAttributes({ ...config.OTEL_RESOURCE_ATTRIBUTES, "service.name": serviceName }),
    sampler: new ParentBasedSampler({ root }),
    spanProcessors: [processor],
  });
  return {
    tracer: provider.getTracer("clinic-service"),
    api,
    async stop() {
      const shutdownPromise = provider.shutdown().catch((error: unknown) => {
        logger.debug({ error }, "The last spans could not be sent.");
      });
      await settlesWithin(shutdownPromise, FLUSH_TIMEOUT_MS);
    },
  };
}

/** Wraps an exporter to log the beginning and the end of each outage of the collector, instead of each failure. */
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
