import type { Config } from "../runtime/config.ts";
import type { Logger } from "../runtime/logger.ts";
import { setTracing } from "./span.ts";

export const TRACING_SETTING_NAMES = [
  "OTEL_EXPORTER_OTLP_ENDPOINT",
  "OTEL_EXPORTER_OTLP_HEADERS",
  "OTEL_SERVICE_NAME",
  "OTEL_RESOURCE_ATTRIBUTES",
  "OTEL_TRACES_SAMPLER",
  "OTEL_TRACES_SAMPLER_ARG",
] as const;

export type TracingConfig = Config<(typeof TRACING_SETTING_NAMES)[number]>;

/**
 * Starts tracing for this process if the settings name a collector. Loads the OpenTelemetry SDK only in this case,
 * because it takes about 0.15 s of CPU time and 15 MB.
 *
 * @param processName name of the process in traces, unless OTEL_SERVICE_NAME is set
 * @returns a function that stops tracing. The function sends the remaining spans, but waits at most a second for the
 *   collector
 */
export async function startTracing(
  config: TracingConfig,
  processName: string,
  logger: Logger,
): Promise<() => Promise<void>> {
  const endpoint = config.OTEL_EXPORTER_OTLP_ENDPOINT;
  if (endpoint === undefined) return async () => undefined;
  const { startOtlpTracing } = await import("./otlp-spans.ts");
  const { stop, ...tracing } = startOtlpTracing(endpoint, config, processName, logger);
  setTracing(tracing);
  return () => {
    setTracing(undefined);
    return stop();
  };
}
