import { expect } from "chai";
import { traceProjection } from "../../../projection/engine/write-items.ts";
import type { RecordedEvent } from "../../../shared/domain/events/recorded-event.ts";
import { collectSpans } from "../../support/traced.ts";

const TRACEPARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

describe("spans of projected events", () => {
  const createEvent = (ageMs: number, traceparent?: string) =>
    ({
      type: "AuditorRevoked",
      metadata: { occurredAt: new Date(Date.now() - ageMs).toISOString(), traceparent },
    }) as RecordedEvent;

  it("recent events with a trace context get a span, and old events get none", async () => {
    const events = [createEvent(0, TRACEPARENT), createEvent(2 * 60 * 60_000, TRACEPARENT), createEvent(0)];
    const spans = await collectSpans(() => traceProjection(events, async () => undefined));
    expect(spans.map(({ name, parentSpanId }) => [name, parentSpanId])).to.deep.equal([
      ["project AuditorRevoked", "b7ad6b7169203331"],
    ]);
  });

  it("the spans of a failed batch are errors", async () => {
    const spans = await collectSpans(async () => {
      const failPromise = traceProjection([createEvent(0, TRACEPARENT)], () =>
        Promise.reject(new RangeError("secret")),
      );
      await failPromise.catch(() => undefined);
    });
    expect(spans.map(({ status, attributes }) => [status.code, attributes["error.type"]])).to.deep.equal([
      [2, "RangeError"],
    ]);
  });
});
