import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { startService } from "./projection/service-process.ts";
import { SECRET_KEYS } from "./projection/webhooks/service-settings.ts";
import { createWorld, type World } from "./projection/webhooks/world.ts";
import { eventually } from "./support/eventually.ts";
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver } from "./support/otlp-receiver.ts";
import {
  createPartnerWorld,
  type PartnerResponse,
  type PartnerWorld,
  sendRequest,
  startTestCommandService,
  type TestCommand,
} from "./support/partner.ts";
import { type Receiver, startReceiver } from "./support/receiver.ts";

const CALLER_TRACE_ID = "0af7651916cd43dd8448eb211c80319c";
const CALLER_SPAN_ID = "b7ad6b7169203331";

/** Expected spans of a create, each with its parent. */
const APPOINTMENT_TREE = [
  "command: POST /sandbox/v1/appointments (root)",
  "command: append appointment < POST /sandbox/v1/appointments",
  "projection: project AppointmentRequested < append appointment",
  "projection: publish message < append appointment",
  "projection: attempt delivery < append appointment",
];
const REPLAY_ROUTE = "POST /sandbox/v1/webhook-endpoints/:endpointId/deliveries/:deliveryId/replay";
const REPLAY_TREE = [
  `command: ${REPLAY_ROUTE} (root)`,
  `command: append webhookReplay < ${REPLAY_ROUTE}`,
  "projection: project WebhookReplayRequested < append webhookReplay",
];

describe("the traces of a partner's requests", () => {
  let world: World;
  let command: TestCommand;
  let partner: PartnerWorld;
  let collector: OtlpReceiver;
  let receiver: Receiver;
  let endpointId: string;
  let appointmentId: string;
  const notes = `notes ${randomUUID()}`;

  before(async () => {
    collector = await startOtlpReceiver();
    receiver = await startReceiver();
    const tracingEnv = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_HEADERS: "x-key=a%20b" };
    world = await createWorld();
    const logAndKeys = { EVENTSTORE_URL: world.eventstoreUrl, WEBHOOK_SECRET_KEYS: JSON.stringify(SECRET_KEYS) };
    command = await startTestCommandService({ ...tracingEnv, ...logAndKeys, DATABASE_URL: world.databaseUrl });
    await startService({
      ...{ ...world, roles: "projectors,relay,webhooks", secretKeys: SECRET_KEYS },
      env: { ...tracingEnv, WEBHOOK_RETRY_SCHEDULE: "0.1" },
    });
    partner = await createPartnerWorld(command, "sandbox");
    const endpoint = { url: receiver.url, events: ["appointment.created"] };
    endpointId = (await post("/webhook-endpoints", {}, endpoint)).body.endpoint.id;
    receiver.setDefaultReaction({ status: 500 });
    const { branchId, animalId } = partner;
    const scheduledAt = new Date(Date.now() + 3 * 86_400_000).toISOString();
    const traceparent = `00-${CALLER_TRACE_ID}-${CALLER_SPAN_ID}-01`;
    const headers = { "Idempotency-Key": randomUUID(), traceparent };
    const { body } = await post("/appointments", headers, { branchId, animalId, scheduledAt, notes });
    appointmentId = body.appointment.id;
    await eventually("both attempts", () => receiver.requests.length >= 2);
  });

  async function post(path: string, headers: Record<string, string>, body?: unknown): Promise<PartnerResponse> {
    const allHeaders = { ...partner.headers, ...headers };
    const response = await sendRequest("POST", `${command.url}/sandbox/v1${path}`, allHeaders, body);
    expect(response.status, response.text).to.be.within(200, 299);
    return response;
  }

  /** Returns the trace context of a webhook request. */
  function readTraceparent(index: number): { traceId: string | undefined; spanId: string | undefined } {
    const [, traceId, spanId] = String(receiver.requests[index]?.headers.traceparent).split("-");
    return { traceId, spanId };
  }

  /** Waits for the spans of a webhook request's trace. @param isComplete returns true if no span is missing */
  const awaitTrace = (requestIndex: number, isComplete: (spans: ReceivedSpan[]) => boolean) =>
    eventually("all spans", () => {
      const { traceId } = readTraceparent(requestIndex);
      const spans = collector.spans.filter((span) => span.traceId === traceId);
      return isComplete(spans) && spans;
    });

  /** Describes each span and its parent. Omits repetitions, because a busy machine can repeat a step. */
  function describeTree(spans: readonly ReceivedSpan[]): string[] {
    const spansById = new Map(spans.map((span) => [span.spanId, span]));
    const describeParent = ({ parentSpanId }: ReceivedSpan) =>
      parentSpanId === undefined ? "(root)" : `< ${spansById.get(parentSpanId)?.name ?? "a missing span"}`;
    return [...new Set(spans.map((span) => `${span.service}: ${span.name} ${describeParent(span)}`))];
  }

  const countRoots = (spans: readonly ReceivedSpan[]) => spans.filter((span) => span.parentSpanId === undefined).length;
  const listAttempts = (spans: readonly ReceivedSpan[]) => spans.filter(({ name }) => name === "attempt delivery");

  /** Waits for the spans of the request that created the appointment. */
  const awaitAppointmentTrace = () =>
    awaitTrace(0, (spans) => describeTree(spans).length >= APPOINTMENT_TREE.length && listAttempts(spans).length >= 2);

  it("the spans of all processes form one tree, from the request to the failure of the delivery", async () => {
    const spans = await awaitAppointmentTrace();
    expect(describeTree(spans)).to.have.members(APPOINTMENT_TREE);
    expect(countRoots(spans)).to.equal(1);
    for (const span of spans) expect(span.endTimeUnixNano >= span.startTimeUnixNano).to.equal(true);
  });

  it("each webhook request carries the trace context of its attempt", async () => {
    const attempts = listAttempts(await awaitAppointmentTrace());
    const sentSpanIds = receiver.requests.map((_, index) => readTraceparent(index).spanId);
    expect(attempts.map(({ spanId }) => spanId)).to.include.members(sentSpanIds.slice(0, 2));
    for (const { attributes, status } of attempts) {
      expect(attributes).to.include({ "http.response.status_code": 500, "error.type": "500" });
      expect(status).to.deep.equal({ code: 2 });
    }
  });

  it("the trace links to the caller's trace, but does not continue it", async () => {
    const root = (await awaitAppointmentTrace()).find((span) => span.parentSpanId === undefined);
    expect(root?.links).to.deep.equal([{ traceId: CALLER_TRACE_ID, spanId: CALLER_SPAN_ID }]);
    expect(collector.spans.filter(({ traceId }) => traceId === CALLER_TRACE_ID)).to.deep.equal([]);
  });

  it("the metadata of the stored event contains the trace context of the append", async () => {
    const spans = await awaitAppointmentTrace();
    const [event] = await command.log.read(`appointment-${appointmentId}`);
    const { traceId, spanId } = spans.find(({ name }) => name === "append appointment") ?? {};
    expect(event?.metadata.traceparent).to.equal(`00-${traceId}-${spanId}-01`);
    const root = spans.find((span) => span.parentSpanId === undefined);
    expect(event?.metadata.$correlationId).to.equal(root?.attributes["correlation.id"]);
  });

  it("the trace of a replay contains the request and its projection, but not the attempt", async () => {
    await awaitAppointmentTrace();
    const requestCount = receiver.requests.length;
    receiver.setDefaultReaction({ status: 200 });
    const deliveryId = receiver.requests[0]?.headers["webhook-id"];
    await post(`/webhook-endpoints/${endpointId}/deliveries/${deliveryId}/replay`, {});
    await eventually("the attempt", () => receiver.requests.length > requestCount);
    expect(receiver.requests[requestCount]?.headers).not.to.have.property("traceparent");
    const spans = await eventually("all spans", () => {
      const root = collector.spans.find(({ name }) => name === REPLAY_ROUTE);
      const found = collector.spans.filter(({ traceId }) => traceId === root?.traceId);
      return found.length >= REPLAY_TREE.length && found;
    });
    expect(describeTree(spans)).to.have.members(REPLAY_TREE);
    expect(countRoots(spans)).to.equal(1);
  });

  it("the collector gets the configured headers, and no data of tenants", () => {
    expect(collector.getLastHeaders()["x-key"]).to.equal("a b");
    const text = JSON.stringify(collector.spans, (_, value) => (typeof value === "bigint" ? String(value) : value));
    const { clinicId, branchId, animalId, applicationId } = partner;
    for (const value of [clinicId, branchId, animalId, applicationId, appointmentId, endpointId, notes, receiver.url])
      expect(text).not.to.contain(value);
  });
});
