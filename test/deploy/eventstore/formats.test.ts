/** Stored formats. Records contain the bytes that the protocol sends, and checksums cover every byte. */
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
  writeSafeInteger,
} from "../../../deploy/local/eventstore/storage/log-format.ts";

const nameArbitrary = fc.string({ unit: "binary", minLength: 1, maxLength: 12 });
const safeIntegerArbitrary = fc.maxSafeNat();

const createRecord = (revision: number | undefined, body: Uint8Array) => ({
  ordinal: 7,
  position: 1_234,
  revision,
  body: Buffer.from(body),
});

describe("the stored formats of the embedded log", () => {
  it("sorting encoded safe integers by bytes gives the numeric order", () => {
    const encode = (number: number) => {
      const buffer = Buffer.alloc(8);
      writeSafeInteger(buffer, number, 0);
      return buffer;
    };
    fc.assert(
      fc.property(safeIntegerArbitrary, safeIntegerArbitrary, (a, b) => {
        expect(readSafeInteger(encode(a), 0)).to.equal(a);
        expect(Math.sign(Buffer.compare(encode(a), encode(b)))).to.equal(Math.sign(a - b));
      }),
    );
  });

  it("the generated protobuf code can decode an encoded event", () => {
    const id = fc.uuid();
    const bytesArbitrary = fc.uint8Array({ maxLength: 300 });
    const contentTypeArbitrary = fc.constantFrom("application/json", "application/octet-stream");
    fc.assert(
      fc.property(
        id,
        nameArbitrary,
        nameArbitrary,
        contentTypeArbitrary,
        bytesArbitrary,
        bytesArbitrary,
        safeIntegerArbitrary,
        safeIntegerArbitrary,
        (id, type, stream, contentType, data, metadata, revision, position) => {
          const createdAt = 1_700_000_000_123;
          const event = { id, type, contentType, data, metadata };
          const record = encodeRecord(event, { stream, revision, position, createdAt });
          expect(readStreamName(record)).to.equal(stream);
          expect(readEventType(record)).to.equal(type);
          expect(readCreationTime(record)).to.equal(createdAt);
          const response = streams.ReadResp.deserializeBinary(readWireBytes(record)).getEvent()!;
          const recordedEvent = response.getEvent()!;
          expect(response.getCommitPosition()).to.equal(String(position));
          expect(recordedEvent.getCommitPosition()).to.equal(String(position));
          expect(recordedEvent.getPreparePosition()).to.equal(String(position));
          expect(recordedEvent.getStreamRevision()).to.equal(String(revision));
          expect(recordedEvent.getId()?.getString()).to.equal(id);
          expect(Buffer.from(recordedEvent.getStreamIdentifier()!.getStreamName_asU8()).toString()).to.equal(stream);
          expect(recordedEvent.getData_asU8()).to.deep.equal(data);
          expect(recordedEvent.getCustomMetadata_asU8()).to.deep.equal(metadata);
          expect(recordedEvent.getMetadataMap().get("type")).to.equal(type);
          expect(recordedEvent.getMetadataMap().get("content-type")).to.equal(contentType);
          expect(recordedEvent.getMetadataMap().get("created")).to.equal("17000000001230000");
        },
      ),
      { numRuns: 500 },
    );
  });

  it("a tombstone is encoded with the largest signed 64-bit revision", () => {
    const event = {
      id: "",
      type: "t",
      contentType: "c",
      data: new Uint8Array(0),
      metadata: new Uint8Array(0),
    };
    const revision = 9_223_372_036_854_775_807n;
    const record = encodeRecord(event, { stream: "s", revision, position: 1, createdAt: 0 });
    const recordedEvent = streams.ReadResp.deserializeBinary(readWireBytes(record)).getEvent()?.getEvent();
    expect(recordedEvent?.getStreamRevision()).to.equal("9223372036854775807");
  });

  it("decoding an encoded record returns the same record, also for a tombstone", () => {
    fc.assert(
      fc.property(fc.option(fc.nat(), { nil: undefined }), fc.uint8Array(), (revision, body) => {
        const encodedRecord = encodeStoredRecord(createRecord(revision, body), 5);
        const paddedRecord = Buffer.concat([Buffer.from("xy"), encodedRecord, Buffer.from("z")]);
        expect(decodeStoredRecord(paddedRecord, 2, 5)).to.deep.equal(createRecord(revision, body));
      }),
    );
  });

  it("records and headers with a flipped bit, truncated records and records of another log are not decoded", () => {
    const encodedRecord = encodeStoredRecord(createRecord(3, Buffer.from("some content")), 5);
    for (let bit = 0; bit < 8 * encodedRecord.length; bit += 1) {
      const flippedBytes = Buffer.from(encodedRecord);
      flippedBytes[bit >> 3] = (flippedBytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
      expect(decodeStoredRecord(flippedBytes, 0, 5), `bit ${bit}`).to.equal(undefined);
    }
    for (let length = 0; length < encodedRecord.length; length += 1) {
      expect(decodeStoredRecord(encodedRecord.subarray(0, length), 0, 5)).to.equal(undefined);
    }
    expect(decodeStoredRecord(encodedRecord, 0, 6)).to.equal(undefined);
    const previousState = { eventCount: 3, position: 99, checksum: 4 };
    const frameHeader = encodeFrame([encodedRecord], previousState).bytes.subarray(0, FRAME_HEADER_BYTES);
    const logHeader = encodeLogHeader("00112233445566778899aabbccddeeff");
    expect(decodeFrameHeader(frameHeader)?.previousState).to.deep.equal(previousState);
    expect(decodeLogHeader(logHeader)?.logId).to.equal("00112233445566778899aabbccddeeff");
    for (const [header, decode] of [
      [frameHeader, decodeFrameHeader],
      [logHeader, decodeLogHeader],
    ] as const) {
      for (let bit = 0; bit < 8 * header.length; bit += 1) {
        const flippedBytes = Buffer.from(header);
        flippedBytes[bit >> 3] = (flippedBytes[bit >> 3] ?? 0) ^ (1 << (bit & 7));
        expect(decode(flippedBytes), `bit ${bit}`).to.equal(undefined);
      }
    }
  });
});
