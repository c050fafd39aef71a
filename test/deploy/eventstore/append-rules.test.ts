import { expect } from "chai";
import {
  ANY,
  type AppendTarget,
  decideAppend,
  NO_STREAM,
  STREAM_EXISTS,
  type StreamHistory,
} from "../../../deploy/local/eventstore/model/append-rules.ts";

const EMPTY_STREAM: AppendTarget = { lastRevision: NO_STREAM, isTombstoned: false, isSoftDeleted: false };

/**
 * Creates the state and history of a stream with these event ids. If `isRemembered` is true, the ids were written
 * recently.
 */
function createStream(ids: readonly string[], isRemembered = true): { state: AppendTarget; history: StreamHistory } {
  return {
    state: { ...EMPTY_STREAM, lastRevision: ids.length - 1 },
    history: {
      findRecentRevision: (id) => (isRemembered && ids.includes(id) ? ids.indexOf(id) : undefined),
      findEventId: (revision) => ids[revision],
      hasMetadata: () => false,
    },
  };
}

describe("append rules", () => {
  const { state, history } = createStream(["a", "b", "c"]);
  const decide = (expected: number, ids: string[], target: AppendTarget = state) =>
    decideAppend(expected, ids, target, history);
  const WRONG_REVISION = { kind: "wrong-revision", currentRevision: 2 };

  it("an append at the current revision is written without a check of the event ids", () => {
    expect(decide(2, ["a"])).to.deep.equal({ kind: "write" });
  });

  it("an append of new event ids at an earlier or a later revision is refused", () => {
    expect(decide(3, ["x"])).to.deep.equal(WRONG_REVISION);
    expect(decide(1, ["x"])).to.deep.equal(WRONG_REVISION);
    expect(decide(NO_STREAM, ["x"])).to.deep.equal(WRONG_REVISION);
  });

  it("an append is a retry if the same event ids are already stored after the expected revision", () => {
    expect(decide(NO_STREAM, ["a"])).to.deep.equal({ kind: "already-written", revision: 0 });
    expect(decide(0, ["b", "c"])).to.deep.equal({ kind: "already-written", revision: 2 });
  });

  it("an append at an earlier revision is refused unless the same event ids follow that revision in the same order", () => {
    expect(decide(1, ["c", "d"])).to.deep.equal(WRONG_REVISION);
    expect(decide(0, ["c", "b"])).to.deep.equal(WRONG_REVISION);
  });

  it("an empty append is refused at an earlier revision and accepted at the current revision", () => {
    expect(decide(0, [])).to.deep.equal(WRONG_REVISION);
    expect(decide(2, [])).to.deep.equal({ kind: "write" });
    expect(decide(ANY, [])).to.deep.equal({ kind: "write" });
  });

  it("an append without an exact revision is a retry if the log remembers the event ids", () => {
    for (const expected of [ANY, STREAM_EXISTS]) {
      expect(decide(expected, ["x", "a"])).to.deep.equal({ kind: "write" });
      expect(decide(expected, ["b", "c"])).to.deep.equal({ kind: "already-written", revision: 2 });
      expect(decide(expected, ["c", "x"])).to.deep.equal(WRONG_REVISION);
    }
    const forgottenStream = createStream(["a"], false);
    expect(decideAppend(ANY, ["a"], forgottenStream.state, forgottenStream.history)).to.deep.equal({ kind: "write" });
  });

  it("an append that expects an existing stream is written if the stream has only metadata", () => {
    const historyWithMetadata = { ...history, hasMetadata: () => true };
    expect(decideAppend(STREAM_EXISTS, ["x"], EMPTY_STREAM, historyWithMetadata)).to.deep.equal({ kind: "write" });
    const wrongRevision = { kind: "wrong-revision", currentRevision: NO_STREAM };
    expect(decide(STREAM_EXISTS, ["x"], EMPTY_STREAM)).to.deep.equal(wrongRevision);
  });

  it("an append restores a soft-deleted stream unless the append expects an existing stream or an earlier revision", () => {
    const deletedState = { ...state, isSoftDeleted: true };
    expect(decide(NO_STREAM, ["x"], deletedState)).to.deep.equal({ kind: "write" });
    expect(decide(2, ["x"], deletedState)).to.deep.equal({ kind: "write" });
    expect(decide(ANY, ["x"], deletedState)).to.deep.equal({ kind: "write" });
    expect(decide(1, ["x"], deletedState)).to.deep.equal(WRONG_REVISION);
    expect(decide(STREAM_EXISTS, ["x"], deletedState)).to.deep.equal({ kind: "deleted" });
  });

  it("every append to a tombstoned stream is refused", () => {
    for (const expected of [ANY, NO_STREAM, STREAM_EXISTS, 2]) {
      expect(decide(expected, ["a"], { ...state, isTombstoned: true })).to.deep.equal({ kind: "deleted" });
    }
  });
});
