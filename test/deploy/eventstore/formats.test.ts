/**
 * Tests of the stored formats and of the index. Records contain the bytes that the protocol sends. Checksums cover
 * every byte.
 */
import streams from "@eventstore/db-client/generated/streams_pb.js";
import { expect } from "chai";
import fc from "fast-check";
import {
  encodeRecord,
  readCreationTime,
  readEventType,
  readStreamName,
  readWireBytes,
} from "../../../deploy/local/eventstore/model/record.ts";
import {
  decodeFrameHeader,
  decodeLogHeader,
  decodeStoredRecord,
  encodeFrame,
  encodeLogHeader,
  encodeStoredRecord,
  FRAME_HEADER_BYTES,
  readSafeInteger,
  TOMBSTONE_REVISION,
  writeSafeInteger,
} from "../../../deploy/local/eventstore/storage/log-format.ts";
import { LogIndex } from "../../../deploy/local/eventstore/storage/log-index.ts";

describe("the stored formats of the embedded log", () => {
  it("a safe integer can be read from its encoding, and encodings sort in numeric order", () => {
    const encode = (number: number) => {
      const buffer = Buffer.alloc(8);
      writeSafeInteger(buffer, number, 0);
      return buffer;
    };
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.maxSafeNat(), (a, b) => {
        expect(readSafeInteger(encode(a), 0)).to.equal(a);
        expect(Math.sign(Buffer.compare(encode(a), encode(b)))).to.equal(Math.sign(a - b));
      }),
    );
  });

  it("the generated protobuf code can decode an encoded event, also a tombstone", () => {
    const nameArbitrary = fc.string({ unit: "binary", minLength: 1, maxLength: 12 });
    const bytesArbitrary = fc.uint8Array({ maxLength: 300 });
    const contentTypeArbitrary = fc.constantFrom("application/json", "application/octet-stream");
    const eventArbitrary = fc.record({
      ...{ id: fc.uuid(), type: nameArbitrary, contentType: contentTypeArbitrary },
      ...{ data: bytesArbitrary, metadata: bytesArbitrary },
    });
    const revisionArbitrary = fc.oneof(fc.maxSafeNat(), fc.constant(TOMBSTONE_REVISION));
    fc.assert(
      fc.property(eventArbitrary, nameArbitrary, revisionArbitrary, fc.maxSafeNat(), (event, stream, revision, at) => {
        const createdAt = 1_700_000_000_123;
        const record = encodeRecord(event, { stream, revision, position: at, createdAt });
        expect([readStreamName(record), readEventType(record)]).to.deep.equal([stream, event.type]);
        expect(readCreationTime(record)).to.equal(createdAt);
        const response = streams.ReadResp.deserializeBinary(readWireBytes(record)).getEvent()!;
        const recordedEvent = response.getEvent()!;
        for (const position of [response.getCommitPosition(), recordedEvent.getCommitPosition()])
          expect(position).to.equal(String(at));
        expect(recordedEvent.getPreparePosition()).to.equal(String(at));
        expect(recordedEvent.getStreamRevision()).to.equal(String(revision));
        expect(recordedEvent.getId()?.getString()).to.equal(event.id);
        expect(Buffer.from(recordedEvent.getStreamIdentifier()!.getStreamName_asU8()).toString()).to.equal(stream);
        expect(recordedEvent.getData_asU8()).to.deep.equal(event.data);
        expect(recordedEvent.getCustomMetadata_asU8()).to.deep.equal(event.metadata);
        const fields = { type: event.type, "content-type": event.contentType, created: `${createdAt}0000` };
        expect(Object.fromEntries(recordedEvent.getMetadataMap().toArray())).to.deep.equal(fields);
      }),
      { numRuns: 500 },
    );
  });

  it("records and headers with a flipped bit, truncated records and records of another log are not decoded", () => {
    const content = { ordinal: 7, position: 1_234, revision: 3, body: Buffer.from("some content") };
    const record = encodeStoredRecord(content, 5);
    const previousState = { eventCount: 3, position: 99, checksum: 4 };
    const frameHeader = encodeFrame([record], previousState).bytes.subarray(0, FRAME_HEADER_BYTES);
    const logHeader = encodeLogHeader("00112233445566778899aabbccddeeff");
    const decodeRecord = (bytes: Buffer) => decodeStoredRecord(bytes, 0, 5);
    expect(decodeRecord(record)).to.deep.equal(content);
    expect(decodeFrameHeader(frameHeader)?.previousState).to.deep.equal(previousState);
    expect(decodeLogHeader(logHeader)?.logId).to.equal("00112233445566778899aabbccddeeff");
    for (const [encoded, decode] of [
      [record, decodeRecord],
      [frameHeader, decodeFrameHeader],
      [logHeader, decodeLogHeader],
    ] as const)
      for (let bit = 0; bit < 8 * encoded.length; bit += 1) {
        const flippedBytes = Buffer.from(encoded);
        flippedBytes[bit >> 3] = (flippedBytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        expect(decode(flippedBytes), `bit ${bit}`).to.equal(undefined);
      }
    for (let length = 0; length < record.length; length += 1)
      expect(decodeRecord(record.subarray(0, length))).to.equal(undefined);
    expect(decodeStoredRecord(record, 0, 6)).to.equal(undefined);
  });

  it("the index refuses an event with an unexpected ordinal, position or revision", () => {
    const index = new LogIndex();
    const add = (stream: string, ordinal: number, position: number, revision: number) =>
      index.add(stream, { ordinal, position, revision, body: Buffer.alloc(0) }, 0);
    expect([add("a", 0, 10, 0), add("a", 1, 20, 1)]).to.deep.equal([undefined, undefined]);
    expect(add("a", 3, 40, 2)).to.match(/next event has the ordinal 3, expected 2/);
    expect(add("a", 2, 20, 2)).to.match(/Position 20/);
    expect(add("a", 2, 30, 3)).to.match(/next event of the stream has the revision 3, expected 2/);
    expect(add("b", 2, 30, 1)).to.match(/next event of the stream has the revision 1, expected 0/);
    expect(index.eventCount).to.equal(2);
  });
});
