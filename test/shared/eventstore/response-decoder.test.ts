import { convertGrpcEvent } from "@eventstore/db-client/dist/utils/convertGrpcEvent.js";
import shared from "@eventstore/db-client/generated/shared_pb.js";
import streams from "@eventstore/db-client/generated/streams_pb.js";
import { expect } from "chai";
import fc from "fast-check";
import { decodeEvent } from "../../../shared/eventstore/response-decoder.ts";

const { ReadEvent } = streams.ReadResp;

const number = fc.oneof(
  fc.nat(),
  fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
  fc.constantFrom(2n ** 49n, 2n ** 49n - 1n),
);
const text = fc.oneof(fc.string(), fc.string({ unit: "binary" }), fc.constant("x".repeat(200)));
const jsonBytes = fc.json().map((json) => Buffer.from(json));
const bytes = fc.oneof(jsonBytes, fc.uint8Array({ maxLength: 300 }), fc.constant(new Uint8Array()));

const record = fc
  .record(
    {
      id: fc.uuid(),
      stream: text,
      revision: number,
      commitPosition: number,
      preparePosition: number,
      type: text,
      contentType: fc.constantFrom("application/json", "application/octet-stream"),
      created: number,
      data: bytes,
      customMetadata: bytes,
    },
    { requiredKeys: ["id", "stream"] },
  )
  .map((fields) => {
    const message = new ReadEvent.RecordedEvent()
      .setId(new shared.UUID().setString(fields.id))
      .setStreamIdentifier(new shared.StreamIdentifier().setStreamName(Buffer.from(fields.stream)));
    if (fields.revision !== undefined) message.setStreamRevision(String(fields.revision));
    if (fields.commitPosition !== undefined) message.setCommitPosition(String(fields.commitPosition));
    if (fields.preparePosition !== undefined) message.setPreparePosition(String(fields.preparePosition));
    if (fields.data) message.setData(fields.data);
    if (fields.customMetadata) message.setCustomMetadata(fields.customMetadata);
    const metadata = message.getMetadataMap();
    if (fields.type !== undefined) metadata.set("type", fields.type);
    if (fields.contentType !== undefined) metadata.set("content-type", fields.contentType);
    if (fields.created !== undefined) metadata.set("created", String(fields.created));
    return message;
  });

const event = fc
  .record({ record, link: record, commitPosition: number }, { requiredKeys: [] })
  .map(({ record, link, commitPosition }) => {
    const message = new ReadEvent();
    if (record) message.setEvent(record);
    if (link) message.setLink(link);
    if (commitPosition !== undefined) message.setCommitPosition(String(commitPosition));
    return message;
  });

const eventResponse = event.map((message) => Buffer.from(new streams.ReadResp().setEvent(message).serializeBinary()));

/** Compares what the client makes of a response with what it makes of the response of the generated decoder. */
function expectSameEvent(message: Buffer): void {
  const decodedEvent = decodeEvent(message);
  if (!decodedEvent) return;
  const generatedResponse = streams.ReadResp.deserializeBinary(new Uint8Array(message));
  expect(generatedResponse.hasEvent()).to.equal(true);
  const [event, generatedEvent] = [decodedEvent, generatedResponse].map((response) =>
    toPlain(convertGrpcEvent(response.getEvent() as never)),
  );
  expect(event).to.deep.equal(generatedEvent);
}

/** Bytes may be a `Buffer` or a `Uint8Array`. */
function toPlain(value: unknown): unknown {
  if (value instanceof Uint8Array) return [...value];
  if (value instanceof Date || typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, toPlain(member)]));
}

describe("the decoder of events from the event log", () => {
  it("the client gets the same event as from the generated decoder", () => {
    fc.assert(fc.property(eventResponse, expectSameEvent), { numRuns: 1_000 });
  });

  it("an event with numbers below 2^49 and without a link is decoded", () => {
    const record = new ReadEvent.RecordedEvent()
      .setId(new shared.UUID().setString("0c5d4e3a-7f7a-4d53-9a7b-6d3a1f0e2b11"))
      .setStreamIdentifier(new shared.StreamIdentifier().setStreamName(Buffer.from("clinic-1")));
    const message = new ReadEvent().setEvent(record).setCommitPosition(String(2n ** 49n - 1n));
    const bytes = Buffer.from(new streams.ReadResp().setEvent(message).serializeBinary());
    expect(decodeEvent(bytes)).not.to.equal(undefined);
    expectSameEvent(bytes);
  });

  it("a message with changed, missing or additional bytes is not decoded, or as by the generated decoder", () => {
    const damage = fc.record({ message: eventResponse, at: fc.nat(), byte: fc.nat(255) });
    fc.assert(
      fc.property(damage, ({ message, at, byte }) => {
        const index = at % message.length;
        expectSameEvent(message.subarray(0, index));
        expectSameEvent(Buffer.concat([message, Buffer.from([byte])]));
        message[index] = byte;
        expectSameEvent(message);
      }),
      { numRuns: 2_000 },
    );
  });

  it("other responses are not decoded", () => {
    const responses = [
      new streams.ReadResp(),
      new streams.ReadResp().setCaughtUp(new streams.ReadResp.CaughtUp()),
      new streams.ReadResp().setEvent(new ReadEvent()),
      new streams.ReadResp().setConfirmation(new streams.ReadResp.SubscriptionConfirmation().setSubscriptionId("x")),
    ];
    for (const response of responses) expect(decodeEvent(Buffer.from(response.serializeBinary()))).to.equal(undefined);
  });
});
