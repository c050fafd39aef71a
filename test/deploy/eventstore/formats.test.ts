/** The stored forms: records are the wire bytes of the protocol, and every byte is covered by a checksum. */
import streams from "@eventstore/db-client/generated/streams_pb.js";
import { expect } from "chai";
import fc from "fast-check";
import { readNumber, writeNumber } from "../../../deploy/local/eventstore/bytes.ts";
import { encodeRecord, streamOf, typeOf, wireOf } from "../../../deploy/local/eventstore/record.ts";

const name = fc.string({ unit: "binary", minLength: 1, maxLength: 12 });
const safe = fc.maxSafeNat();

describe("the stored forms of the embedded log", () => {
  it("sort numbers by their bytes", () => {
    const bytes = (value: number) => {
      const buffer = Buffer.alloc(8);
      writeNumber(buffer, value, 0);
      return buffer;
    };
    fc.assert(
      fc.property(safe, safe, (a, b) => {
        expect(readNumber(bytes(a), 0)).to.equal(a);
        expect(Math.sign(Buffer.compare(bytes(a), bytes(b)))).to.equal(Math.sign(a - b));
      }),
    );
  });

  it("give events the bytes that the generated code reads", () => {
    const id = fc.uuid();
    const bytes = fc.uint8Array({ maxLength: 300 });
    const json = fc.constantFrom("application/json", "application/octet-stream");
    fc.assert(
      fc.property(
        id,
        name,
        name,
        json,
        bytes,
        bytes,
        safe,
        safe,
        (id, type, stream, contentType, data, metadata, revision, position) => {
          const created = 1_700_000_000_123;
          const event = { id, type, contentType, data, metadata };
          const record = encodeRecord(event, { stream, revision, position, created });
          expect(streamOf(record)).to.equal(stream);
          expect(typeOf(record)).to.equal(type);
          const read = streams.ReadResp.deserializeBinary(wireOf(record)).getEvent()!;
          const recorded = read.getEvent()!;
          expect(read.getCommitPosition()).to.equal(String(position));
          expect(recorded.getCommitPosition()).to.equal(String(position));
          expect(recorded.getPreparePosition()).to.equal(String(position));
          expect(recorded.getStreamRevision()).to.equal(String(revision));
          expect(recorded.getId()?.getString()).to.equal(id);
          expect(Buffer.from(recorded.getStreamIdentifier()!.getStreamName_asU8()).toString()).to.equal(
            stream,
          );
          expect(recorded.getData_asU8()).to.deep.equal(data);
          expect(recorded.getCustomMetadata_asU8()).to.deep.equal(metadata);
          expect(recorded.getMetadataMap().get("type")).to.equal(type);
          expect(recorded.getMetadataMap().get("content-type")).to.equal(contentType);
          expect(recorded.getMetadataMap().get("created")).to.equal("17000000001230000");
        },
      ),
      { numRuns: 500 },
    );
  });

  it("give a tombstone the largest revision", () => {
    const event = {
      id: "",
      type: "t",
      contentType: "c",
      data: new Uint8Array(0),
      metadata: new Uint8Array(0),
    };
    const revision = 9_223_372_036_854_775_807n;
    const record = encodeRecord(event, { stream: "s", revision, position: 1, created: 0 });
    const read = streams.ReadResp.deserializeBinary(wireOf(record)).getEvent()?.getEvent();
    expect(read?.getStreamRevision()).to.equal("9223372036854775807");
  });
});
