import { randomUUID } from "node:crypto";
import { expect } from "chai";
import { createEventLog, EMPTY_STREAM, type EventLog, type NewEvent } from "../../../shared/eventstore/log.ts";
import { connectToLog } from "../../support/connections.ts";
import { getTestServers } from "../../support/stack.ts";
import { createStoredMetadata } from "../../support/stored-metadata.ts";
import { collectSpans } from "../../support/traced.ts";

const FIRST_TRACE_ID = "1".repeat(32);
const SECOND_TRACE_ID = "2".repeat(32);
const SPAN_ID = "b7ad6b7169203331";

describe("spans of appends", () => {
  let log: EventLog;

  before(async () => {
    log = createEventLog(connectToLog((await getTestServers()).eventstoreUrl));
  });

  function createEvent(stream: string, traceId: string | undefined): NewEvent {
    const { schemaVersion: _, ...metadata } = createStoredMetadata();
    const event = {
      type: "AuditorRevoked" as const,
      data: { auditorId: stream.slice("auditor-".length), reason: null },
    };
    const traceFields = traceId === undefined ? {} : { traceparent: `00-${traceId}-${SPAN_ID}-01` };
    return { id: randomUUID(), event, metadata: { ...metadata, ...traceFields } };
  }

  it("an append with the events of several traces gets one span in each trace", async () => {
    const stream = `auditor-${randomUUID()}`;
    const events = [FIRST_TRACE_ID, SECOND_TRACE_ID, undefined, FIRST_TRACE_ID].map((id) => createEvent(stream, id));
    const spans = await collectSpans(async () => void (await log.append(stream, EMPTY_STREAM, events)));
    expect(spans.map(({ traceId, parentSpanId, name }) => [traceId, parentSpanId, name])).to.have.deep.members([
      [FIRST_TRACE_ID, SPAN_ID, "append auditor"],
      [SECOND_TRACE_ID, SPAN_ID, "append auditor"],
    ]);
    const toTraceparent = (traceId: string) =>
      `00-${traceId}-${spans.find((span) => span.traceId === traceId)?.spanId}-01`;
    const [first, second] = [toTraceparent(FIRST_TRACE_ID), toTraceparent(SECOND_TRACE_ID)];
    const storedEvents = await log.read(stream);
    expect(storedEvents.map(({ metadata }) => metadata.traceparent)).to.deep.equal([first, second, undefined, first]);
  });

  it("the span of a refused append is an error, without the error's message", async () => {
    const stream = `auditor-${randomUUID()}`;
    const append = () => log.append(stream, EMPTY_STREAM, [createEvent(stream, FIRST_TRACE_ID)]);
    await append();
    const spans = await collectSpans(() => append().then(() => expect.fail("appended"), ignoreConflict));
    expect(spans.map(({ status, attributes }) => [status, attributes["error.type"]])).to.deep.equal([
      [{ code: 2 }, "WrongExpectedRevisionError"],
    ]);
  });
});

function ignoreConflict(error: Error): void {
  if (error.name !== "WrongExpectedRevisionError") throw error;
}
