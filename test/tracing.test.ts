import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { type ServiceProcess, startService } from "./projection/service-process.ts";
import { createWorld, SECRET_KEYS, type World } from "./projection/webhooks/world.ts";
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

const REQUEST = "command: POST /sandbox/v1/appointments";
const APPEND = "command: append appointment";
const PROJECT = "projection: project AppointmentRequested";
const PUBLISH = "projection: publish sandbox.appointment.created";
const MATCH = "projection: match endpoints";
const ATTEMPT = "projection: attempt delivery";

describe("the trace of a partner's request", () => {
  let world: World;
  let command: TestCommand;
  let projection: ServiceProcess;
  let partner: PartnerWorld;
  let collector: OtlpReceiver;
  let receiver: Receiver;
  let appointmentId: string;
  /** All spans of the trace to which the webhook belongs. */
  let traceSpans: ReceivedSpan[];
  const notes = `notes ${randomUUID()}`;

  before(async () => {
    collector = await startOtlpReceiver();
    receiver = await startReceiver();
    const tracingEnv = { OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_EXPORTER_OTLP_HEADERS: "x-key=a%20b" };
    world = await createWorld();
    const secretKeys = JSON.stringify(SECRET_KEYS);
    command = await startTestCommandService({
      ...tracingEnv,
      EVENTSTORE_URL: world.eventstoreUrl,
      WEBHOOK_SECRET_KEYS: secretKeys,
    });
    projection = await startService({
      ...{ ...world, roles: "projectors,relay,webhooks", secretKeys: SECRET_KEYS },
      env: { ...tracingEnv, WEBHOOK_RETRY_SCHEDULE: "0.1" },
    });
    partner = await createPartnerWorld(command, "sandbox");
    await post("/webhook-endpoints", {}, { url: receiver.url, events: ["appointment.created"] });
    receiver.queueReactions({ status: 500 });
    const traceparent = `00-${CALLER_TRACE_ID}-${CALLER_SPAN_ID}-01`;
    const { body } = await createAppointment({ traceparent });
    appointmentId = body.appointment.id;
    await eventually("both attempts", () => receiver.requests.length >= 2);
    traceSpans = await eventually("all spans", () => {
      const traceId = readTraceparent(0)?.traceId;
      const spans = collector.spans.filter((span) => span.traceId === traceId);
      return spans.length >= 7 && spans;
    });
  });
  after(async () => {
    await projection?.kill();
    await command?.stop();
    await world?.close();
    await receiver?.close();
    await collector?.close();
  });

  async function post(path: string, headers: Record<string, string>, body: unknown): Promise<PartnerResponse> {
    const response = await sendRequest(
      "POST",
      `${command.url}/sandbox/v1${path}`,
      { ...partner.headers, ...headers },
      body,
    );
    expect(response.status, response.text).to.equal(201);
    return response;
  }

  function createAppointment(headers: Record<string, string>): Promise<PartnerResponse> {
    const { branchId, animalId } = partner;
    const scheduledAt = new Date(Date.now() + 3 * 86_400_000).toISOString();
    const body = { branchId, animalId, scheduledAt, notes };
    return post("/appointments", { "Idempotency-Key": randomUUID(), ...headers }, body);
  }

  /** Returns the trace context that a webhook request carried. */
  function readTraceparent(index: number): { traceId: string | undefined; spanId: string | undefined } {
    const [, traceId, spanId] = String(receiver.requests[index]?.headers.traceparent).split("-");
    return { traceId, spanId };
  }

  const describeSpan = ({ service, name }: ReceivedSpan) => `${service}: ${name}`;
  const findSpan = (description: string) => traceSpans.find((span) => describeSpan(span) === description);

  it("the spans of all processes form one tree, from the request to both attempts of the webhook", () => {
    const spansById = new Map(traceSpans.map((span) => [span.spanId, span]));
    const edges = traceSpans.map((span) => {
      const parent = span.parentSpanId === undefined ? undefined : spansById.get(span.parentSpanId);
      return [describeSpan(span), parent ? describeSpan(parent) : span.parentSpanId];
    });
    expect(edges).to.have.deep.members([
      [REQUEST, undefined],
      [APPEND, REQUEST],
      [PROJECT, APPEND],
      [PUBLISH, APPEND],
      [MATCH, PUBLISH],
      [ATTEMPT, MATCH],
      [ATTEMPT, MATCH],
    ]);
    for (const { startTimeUnixNano, endTimeUnixNano } of traceSpans) {
      expect(endTimeUnixNano >= startTimeUnixNano).to.equal(true);
    }
  });

  it("each webhook request carries the trace context of its attempt", () => {
    const attempts = traceSpans.filter((span) => describeSpan(span) === ATTEMPT);
    const attemptIds = attempts
      .sort((a, b) => Number(a.attributes["attempt.number"]) - Number(b.attributes["attempt.number"]))
      .map(({ spanId }) => spanId);
    expect([readTraceparent(0).spanId, readTraceparent(1).spanId]).to.deep.equal(attemptIds);
    expect(attempts.map(({ status }) => status.code)).to.deep.equal([2, 0]);
    expect(attempts.map((span) => span.attributes["http.response.status_code"])).to.deep.equal([500, 200]);
  });

  it("the trace refers to the caller's trace, but does not continue it", () => {
    expect(collector.spans.filter(({ traceId }) => traceId === CALLER_TRACE_ID)).to.deep.equal([]);
    expect(findSpan(REQUEST)?.links).to.deep.equal([{ traceId: CALLER_TRACE_ID, spanId: CALLER_SPAN_ID }]);
  });

  it("the stored event names the append in its metadata", async () => {
    const [event] = await command.log.read(`appointment-${appointmentId}`);
    const { traceId, spanId } = findSpan(APPEND) ?? {};
    expect(event?.metadata.traceparent).to.equal(`00-${traceId}-${spanId}-01`);
    expect(event?.metadata.$correlationId).to.equal(findSpan(REQUEST)?.attributes["correlation.id"]);
  });

  it("the collector gets the configured headers, and no data of tenants", () => {
    expect(collector.getLastHeaders()["x-key"]).to.equal("a b");
    const text = JSON.stringify(collector.spans, (_, value) => (typeof value === "bigint" ? String(value) : value));
    const { clinicId, branchId, animalId, applicationId } = partner;
    for (const value of [clinicId, branchId, animalId, applicationId, appointmentId, notes, receiver.url]) {
      expect(text).not.to.contain(value);
    }
  });
});
