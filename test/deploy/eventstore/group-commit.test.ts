import { expect } from "chai";
import {
  GroupCommit,
  MAX_GROUP_WRITES,
  MAX_PENDING_BYTES,
  MAX_PENDING_WRITES,
} from "../../../deploy/local/eventstore/store/group-commit.ts";
import type { WriteRequest, WriteResult } from "../../../deploy/local/eventstore/store/staged-group.ts";
import { MAX_RECENT_BYTES, MAX_RECENT_EVENTS, RecentEvents } from "../../../deploy/local/eventstore/store/store.ts";
import { getRejection } from "../../support/rejection.ts";

const NO_DEADLINE = Number.POSITIVE_INFINITY;
const createWriteRequest = (stream: string): WriteRequest => ({
  kind: "append",
  stream,
  expectedRevision: -2,
  events: [],
});

/** Creates a group commit whose commits do not complete until `release` is called. */
function createSlowGroupCommit() {
  const groups: string[][] = [];
  let release: () => void = () => undefined;
  const releasePromise = new Promise<void>((resolve) => {
    release = resolve;
  });
  const groupCommit = new GroupCommit(async (writes) => {
    groups.push(writes.map(({ stream }) => stream));
    await releasePromise;
    return writes.map((_, index): WriteResult => ({ outcome: "written", revision: index, position: 1 }));
  });
  return { groupCommit, groups, release };
}

describe("group commit", () => {
  it("a group commit writes all queued writes in order, in groups of limited size", async () => {
    const { groupCommit, groups, release } = createSlowGroupCommit();
    const count = 2 * MAX_GROUP_WRITES + 5;
    const submissions = Array.from({ length: count }, (_, n) =>
      groupCommit.submit(createWriteRequest(String(n)), 1, NO_DEADLINE),
    );
    release();
    await Promise.all(submissions);
    expect(groups.flat()).to.deep.equal(Array.from({ length: count }, (_, n) => String(n)));
    expect(groups.map(({ length }) => length)).to.deep.equal([MAX_GROUP_WRITES, MAX_GROUP_WRITES, 5]);
  });

  it("a group commit refuses a write if the queue already has the maximum number of writes or bytes", async () => {
    const { groupCommit, release } = createSlowGroupCommit();
    const writes = Array.from({ length: MAX_PENDING_WRITES }, () =>
      groupCommit.submit(createWriteRequest("a"), 1, NO_DEADLINE),
    );
    expect(await groupCommit.submit(createWriteRequest("b"), 1, NO_DEADLINE)).to.deep.equal({ outcome: "overloaded" });
    release();
    await Promise.all(writes);
    expect((await groupCommit.submit(createWriteRequest("c"), 1, NO_DEADLINE)).outcome).to.equal("written");
    expect(await groupCommit.submit(createWriteRequest("d"), MAX_PENDING_BYTES + 1, NO_DEADLINE)).to.deep.equal({
      outcome: "overloaded",
    });
    await groupCommit.close();
  });

  it("a group commit does not start a write whose deadline has passed", async () => {
    const { groupCommit, groups, release } = createSlowGroupCommit();
    const lateCommit = groupCommit.submit(createWriteRequest("late"), 1, Date.now() - 1);
    const timelyCommit = groupCommit.submit(createWriteRequest("good"), 1, NO_DEADLINE);
    release();
    expect(await lateCommit).to.deep.equal({ outcome: "expired" });
    expect((await timelyCommit).outcome).to.equal("written");
    expect(groups).to.deep.equal([["good"]]);
  });

  it("closing a group commit completes the queued writes and refuses new writes", async () => {
    const { groupCommit, release } = createSlowGroupCommit();
    const submission = groupCommit.submit(createWriteRequest("a"), 1, NO_DEADLINE);
    const closePromise = groupCommit.close();
    expect(await groupCommit.submit(createWriteRequest("b"), 1, NO_DEADLINE)).to.deep.equal({ outcome: "closing" });
    release();
    await closePromise;
    expect((await submission).outcome).to.equal("written");
  });

  it("after a failed commit, a group commit rejects all further writes and reports the failure", async () => {
    const groupCommit = new GroupCommit(() => Promise.reject(new Error("no space")));
    const submit = () => getRejection(groupCommit.submit(createWriteRequest("a"), 1, NO_DEADLINE));
    const errors = await Promise.all([submit(), submit(), groupCommit.failurePromise]);
    for (const { message } of [...errors, await submit()]) expect(message).to.equal("no space");
    await groupCommit.close();
  });
});

const createEvent = (position: number, size = 10) => ({ position, record: Buffer.alloc(size) });
const getPositions = (events: ReturnType<RecentEvents["findAfter"]>) => events?.map(({ position }) => position);

describe("the recent events in memory", () => {
  it("the oldest events are dropped from memory if the kept events exceed the maximum number or the maximum size", () => {
    for (const [count, size] of [
      [3 * MAX_RECENT_EVENTS, 10],
      [40, MAX_RECENT_BYTES / 8],
      [5, 2 * MAX_RECENT_BYTES],
    ] as const) {
      const recentEvents = new RecentEvents(0);
      for (let n = 1; n <= count; n += 1) {
        recentEvents.push([createEvent(n, size)]);
        for (const afterPosition of [n - 1, Math.max(0, n - 3), 0]) {
          const positions = getPositions(recentEvents.findAfter(afterPosition));
          if (positions !== undefined)
            expect(positions).to.deep.equal(Array.from({ length: n - afterPosition }, (_, i) => afterPosition + i + 1));
        }
      }
      expect(recentEvents.findAfter(0)).to.equal(undefined);
      expect(getPositions(recentEvents.findAfter(count))).to.deep.equal([]);
    }
  });
});
