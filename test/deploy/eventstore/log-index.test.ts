import { expect } from "chai";
import fc from "fast-check";
import { LogIndex } from "../../../deploy/local/eventstore/storage/log-index.ts";

const body = Buffer.alloc(0);

/** Creates an index with one event for each stream name, at positions 10, 20, 30 … */
function createIndex(streams: readonly string[]): LogIndex {
  const index = new LogIndex();
  const revisions = new Map<string, number>();
  for (const [ordinal, stream] of streams.entries()) {
    const revision = revisions.get(stream) ?? 0;
    revisions.set(stream, revision + 1);
    const record = { ordinal, position: 10 * (ordinal + 1), revision, body };
    expect(index.add(stream, record, 100 * (1 + ordinal))).to.equal(undefined);
    index.setEndOffset(10_000);
  }
  return index;
}

describe("the index of the embedded log", () => {
  it("the index finds every event of every stream by revision", () => {
    const streams = fc.array(fc.constantFrom("a", "b", "c", "toString", "__proto__"), { maxLength: 400 });
    fc.assert(
      fc.property(streams, (names) => {
        const index = createIndex(names);
        for (const stream of new Set(names)) {
          const ordinals = [...names.keys()].filter((ordinal) => names[ordinal] === stream);
          expect(ordinals.map((_, revision) => index.findOrdinal(stream, revision))).to.deep.equal(ordinals);
          expect(index.findOrdinals(stream, 0, ordinals.length - 1)).to.deep.equal(ordinals);
          expect(index.findOrdinal(stream, ordinals.length)).to.equal(undefined);
          expect(index.getStreamState(stream).lastRevision).to.equal(ordinals.length - 1);
        }
        expect(index.findOrdinal("unknown", 0)).to.equal(undefined);
      }),
    );
  });

  it("the index finds the first event at or after a log position, and the end of a record", () => {
    const index = createIndex(Array.from({ length: 30 }, () => "a"));
    expect([0, 10, 11, 300, 301].map((position) => index.findOrdinalFrom(position))).to.deep.equal([0, 0, 1, 29, 30]);
    expect([0, 6, 29].map((ordinal) => index.getEndOffset(ordinal))).to.deep.equal([200, 800, 10_000]);
  });

  it("the index refuses an event with an unexpected ordinal, position or revision", () => {
    const index = createIndex(["a", "a"]);
    expect(index.add("a", { ordinal: 3, position: 40, revision: 2, body }, 0)).to.match(
      /next event has the ordinal 3, expected 2/,
    );
    expect(index.add("a", { ordinal: 2, position: 20, revision: 2, body }, 0)).to.match(/Position 20/);
    expect(index.add("a", { ordinal: 2, position: 30, revision: 3, body }, 0)).to.match(
      /next event of the stream has the revision 3, expected 2/,
    );
    expect(index.add("b", { ordinal: 2, position: 30, revision: 1, body }, 0)).to.match(
      /next event of the stream has the revision 1, expected 0/,
    );
    expect(index.eventCount).to.equal(2);
  });
});
