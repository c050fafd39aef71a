/** Collects the spans of a test. */
import { pino } from "pino";
import { readConfig } from "../../shared/runtime/config.ts";
import { startTracing, TRACING_SETTING_NAMES } from "../../shared/tracing/start-tracing.ts";
import { type ReceivedSpan, startOtlpReceiver } from "./otlp-receiver.ts";

/** Runs a function with tracing, and returns its spans. */
export async function collectSpans(run: () => Promise<void>): Promise<ReceivedSpan[]> {
  const collector = await startOtlpReceiver();
  const config = readConfig(TRACING_SETTING_NAMES, { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url });
  const stopTracing = await startTracing(config, "test", pino({ enabled: false }));
  try {
    await run();
  } finally {
    await stopTracing();
    await collector.close();
  }
  return collector.spans;
}
