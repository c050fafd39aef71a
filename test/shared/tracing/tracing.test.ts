import { createServer } from "node:http";
import { expect } from "chai";
import { pino } from "pino";
import { parseStoredEvent } from "../../../shared/domain/events/stored-event.ts";
import { readConfig } from "../../../shared/runtime/config.ts";
import { MAX_BATCH_SIZE, MAX_QUEUED_SPANS } from "../../../shared/tracing/otlp-spans.ts";
import {
  checkTraceparent,
  formatTraceparent,
  isTracing,
  parseTraceparent,
  startSpan,
  startTrace,
} from "../../../shared/tracing/span.ts";
import { startTracing, TRACING_SETTING_NAMES } from "../../../shared/tracing/start-tracing.ts";
import { eventually } from "../../support/eventually.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { startOtlpReceiver } from "../../support/otlp-receiver.ts";
import { startTestCommandService } from "../../support/partner.ts";
import { startReceiver } from "../../support/receiver.ts";
import { useResource } from "../../support/resources.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";

const VALID = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

const INVALID_VALUES = [
  undefined,
  "",
  "01-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
  "00-00000000000000000000000000000000-b7ad6b7169203331-01",
  "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01",
  "00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01",
  `${VALID}-more`,
  `${VALID}\n`,
  `${VALID}, ${VALID}`,
  [VALID],
];

describe("the W3C trace context", () => {
  it("a valid trace context is accepted, and formatting its parts restores it", () => {
    expect(checkTraceparent(VALID)).to.equal(VALID);
    expect(formatTraceparent(parseTraceparent(VALID))).to.equal(VALID);
  });

  it("invalid trace contexts are ignored", () => {
    expect(INVALID_VALUES.map(checkTraceparent)).to.deep.equal(INVALID_VALUES.map(() => undefined));
  });

  const parseMetadata = (more: object) => {
    const metadata = { ...createStoredMetadata(), ...more };
    const event = { type: "EventTypeConfirmed", data: { eventType: "AnimalWeighed", reason: "import" } };
    return parseStoredEvent({ ...event, streamId: "quarantine-streams", metadata }).metadata;
  };

  it("an event is readable without a trace context, and with an invalid one", () => {
    expect(parseMetadata({ traceparent: VALID }).traceparent).to.equal(VALID);
    expect(parseMetadata({})).not.to.have.property("traceparent");
    expect(parseMetadata({ traceparent: "broken" }).traceparent).to.equal(undefined);
  });
});

/** Time in which tracing must stop if the collector does not respond. Its own time limit is a second. Milliseconds. */
const MAX_STOP_MS = 4_500;

describe("the trace collector", () => {
  const lines: { level: number; msg: string }[] = [];
  const logger = pino({}, { write: (line: string) => void lines.push(JSON.parse(line)) });
  const silentCollector = useResource(startReceiver);

  const startTestTracing = (env: Record<string, string>) =>
    startTracing(readConfig(TRACING_SETTING_NAMES, env), "test", logger);

  before(async () => {
    silentCollector.setDefaultReaction({ mode: "hold" });
  });

  const countSpans = () =>
    silentCollector.requests
      .flatMap(({ body }) => JSON.parse(body).resourceSpans)
      .flatMap(({ scopeSpans }) => scopeSpans)
      .flatMap(({ spans }) => spans).length;

  it("while the collector does not respond, spans beyond the limit are dropped, and tracing still stops", async () => {
    const stopTracing = await startTestTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: silentCollector.url });
    for (let index = 0; index < 10_000; index += 1) startTrace("test", "server")?.end();
    const stopStartedAt = performance.now();
    await stopTracing();
    expect(performance.now() - stopStartedAt).to.be.below(MAX_STOP_MS);
    const expectedCount = MAX_QUEUED_SPANS + MAX_BATCH_SIZE;
    await eventually("the queued spans", () => countSpans() >= expectedCount);
    expect(countSpans()).to.equal(expectedCount);
    silentCollector.release();
  });

  for (const { title, getUrl } of [
    { title: "refuses connections", getUrl: findClosedPort },
    { title: "does not respond", getUrl: async () => silentCollector.url },
  ])
    it(`a service responds and stops as usual while the collector ${title}`, async () => {
      const command = await startTestCommandService({ OTEL_EXPORTER_OTLP_ENDPOINT: await getUrl() });
      const responses = await Promise.all(
        Array.from({ length: 100 }, () => fetch(`${command.url}/.well-known/jwks.json`)),
      );
      expect(new Set(responses.map(({ status }) => status))).to.deep.equal(new Set([200]));
      await Promise.all(responses.map((response) => response.text()));
      const stopStartedAt = performance.now();
      await command.stop();
      expect(performance.now() - stopStartedAt).to.be.below(MAX_STOP_MS);
      silentCollector.release();
    });

  it("one line reports that the collector is unavailable", async () => {
    const refusingCollector = await startReceiver();
    refusingCollector.setDefaultReaction({ status: 400 });
    lines.length = 0;
    const stopTracing = await startTestTracing({ OTEL_EXPORTER_OTLP_ENDPOINT: refusingCollector.url });
    for (let index = 0; index < 3 * MAX_BATCH_SIZE; index += 1) startTrace("test", "server")?.end();
    await eventually("two requests", () => refusingCollector.requests.length >= 2);
    await stopTracing();
    await refusingCollector.close();
    expect(lines.map(({ msg }) => msg)).to.deep.equal(["The trace collector is unavailable. Spans are dropped."]);
  });

  it("a trace that is not sampled is not recorded, and its children are not recorded either", async () => {
    const collector = await startOtlpReceiver();
    const stopTracing = await startTestTracing({
      OTEL_EXPORTER_OTLP_ENDPOINT: `${collector.url}/`,
      OTEL_TRACES_SAMPLER: "parentbased_traceidratio",
      OTEL_TRACES_SAMPLER_ARG: "0",
    });
    const root = startTrace("root", "server");
    const child = startSpan("child", "client", root?.traceparent);
    const traceId = root?.traceparent.split("-")[1];
    expect(root?.traceparent).to.match(/-00$/);
    expect(child?.traceparent).to.match(new RegExp(`^00-${traceId}-.*-00$`));
    const recordedTraceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    const recordedChild = startSpan("recorded", "client", recordedTraceparent);
    for (const span of [child, root, recordedChild]) span?.end();
    await stopTracing();
    expect(collector.spans.map(({ name, service }) => [name, service])).to.deep.equal([["recorded", "test"]]);
  });

  it("without a collector, no span is created", async () => {
    const stopTracing = await startTestTracing({});
    expect(isTracing()).to.equal(false);
    expect(startTrace("test", "server")).to.equal(undefined);
    await stopTracing();
  });
});

/** Returns the URL of a port on which nothing listens. */
async function findClosedPort(): Promise<string> {
  const { host, close } = await listenOnLoopback(createServer());
  await close();
  return `http://${host}`;
}
