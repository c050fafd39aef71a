/** The stored forms: keys that never mix streams, records that are the wire bytes of the protocol. */
import streams from "@eventstore/db-client/generated/streams_pb.js";
import { expect } from "chai";
import fc from "fast-check";
import { readNumber, revisionKey, writeNumber } from "../../../deploy/local/eventstore/keys.ts";
import {
  decodeIndexEntry,
  encodeIndexEntry,
  encodeRecord,
  streamOf,
  typeOf,
  wireOf,
} from "../../../deploy/local/eventstore/record.ts";

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

  it("keep the keys of two streams apart, whatever their names", () => {
    fc.assert(
      fc.property(name, name, safe, safe, (one, other, a, b) => {
        fc.pre(one !== other);
        const side = Math.sign(Buffer.compare(revisionKey(one, a), revisionKey(other, b)));
        expect(side).to.not.equal(0);
        for (const revision of [0, 1, Number.MAX_SAFE_INTEGER]) {
          const key = revisionKey(one, revision);
          expect(Math.sign(Buffer.compare(key, revisionKey(other, b)))).to.equal(side);
        }
      }),
    );
    // A name that looks like the end of another one's key.
    const odd = `a${String.fromCharCode(0, 0, 0, 0, 0, 0, 0, 1)}`;
    const [low, high] = [revisionKey("a", 0), revisionKey("a", Number.MAX_SAFE_INTEGER)];
    const key = revisionKey(odd, 5);
    expect(Buffer.compare(key, low) > 0 && Buffer.compare(key, high) < 0).to.equal(false);
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

  it("give index entries back", () => {
    fc.assert(
      fc.property(safe, fc.nat(), fc.uuid(), (position, size, id) => {
        const entry = { position, size, id };
        expect(decodeIndexEntry(encodeIndexEntry(entry))).to.deep.equal(entry);
      }),
    );
  });
});
