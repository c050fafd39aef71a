import { expect } from "chai";
import {
  MAX_GROUP_WRITES,
  MAX_PENDING_BYTES,
  MAX_PENDING_WRITES,
} from "../../../deploy/local/eventstore/model/limits.ts";
import { GroupCommit } from "../../../deploy/local/eventstore/store/group-commit.ts";
import type { Write, WriteResult } from "../../../deploy/local/eventstore/store/staged-group.ts";
import { rejection } from "../../conformance/log-under-test.ts";

const NEVER = Number.POSITIVE_INFINITY;
const write = (stream: string): Write => ({ kind: "append", stream, expected: -2, events: [] });

/** Creates a group commit whose commits wait until `release` is called. */
function onSlowDisk() {
  const groups: string[][] = [];
  let release: () => void = () => undefined;
  const released = new Promise<void>((resolve) => {
    release = resolve;
  });
  const commits = new GroupCommit(async (writes) => {
    groups.push(writes.map(({ stream }) => stream));
    await released;
    return writes.map((_, index): WriteResult => ({ outcome: "written", revision: index, position: 1 }));
  });
  return { commits, groups, release };
}

describe("group commit", () => {
  it("a group commit writes all queued writes in order, in groups of limited size", async () => {
    const { commits, groups, release } = onSlowDisk();
    const count = 2 * MAX_GROUP_WRITES + 5;
    const all = Array.from({ length: count }, (_, n) => commits.submit(write(String(n)), 1, NEVER));
    release();
    await Promise.all(all);
    expect(groups.flat()).to.deep.equal(Array.from({ length: count }, (_, n) => String(n)));
    expect(groups.map(({ length }) => length)).to.deep.equal([MAX_GROUP_WRITES, MAX_GROUP_WRITES, 5]);
  });

  it("a group commit refuses writes beyond the limits of its queue in number or bytes", async () => {
    const { commits, release } = onSlowDisk();
    const waiting = Array.from({ length: MAX_PENDING_WRITES }, () => commits.submit(write("a"), 1, NEVER));
    expect(await commits.submit(write("b"), 1, NEVER)).to.deep.equal({ outcome: "overloaded" });
    release();
    await Promise.all(waiting);
    expect((await commits.submit(write("c"), 1, NEVER)).outcome).to.equal("written");
    expect(await commits.submit(write("d"), MAX_PENDING_BYTES + 1, NEVER)).to.deep.equal({
      outcome: "overloaded",
    });
    await commits.close();
  });

  it("a group commit does not start a write whose deadline has passed", async () => {
    const { commits, groups, release } = onSlowDisk();
    const late = commits.submit(write("late"), 1, Date.now() - 1);
    const good = commits.submit(write("good"), 1, NEVER);
    release();
    expect(await late).to.deep.equal({ outcome: "expired" });
    expect((await good).outcome).to.equal("written");
    expect(groups).to.deep.equal([["good"]]);
  });

  it("closing a group commit completes the queued writes and refuses new writes", async () => {
    const { commits, release } = onSlowDisk();
    const waiting = commits.submit(write("a"), 1, NEVER);
    const closed = commits.close();
    expect(await commits.submit(write("b"), 1, NEVER)).to.deep.equal({ outcome: "closing" });
    release();
    await closed;
    expect((await waiting).outcome).to.equal("written");
  });

  it("after a failed commit, a group commit rejects all further writes and reports the failure", async () => {
    const commits = new GroupCommit(() => Promise.reject(new Error("no space")));
    const [one, two] = [commits.submit(write("a"), 1, NEVER), commits.submit(write("b"), 1, NEVER)];
    expect((await rejection(one)).message).to.equal("no space");
    expect((await rejection(two)).message).to.equal("no space");
    expect((await commits.failed).message).to.equal("no space");
    expect((await rejection(commits.submit(write("c"), 1, NEVER))).message).to.equal("no space");
    await commits.close();
  });
});
