import { connectivityState } from "@grpc/grpc-js";
import { expect } from "chai";
import { toGrpcClient } from "../../../shared/eventstore/grpc-client.ts";
import { onReconnection, subscribeToLog } from "../../../shared/eventstore/subscription.ts";
import { connectToLog } from "../../support/connections.ts";
import { getTestServers } from "../../support/stack.ts";

const { READY, IDLE, SHUTDOWN } = connectivityState;

/** Creates a fake channel whose state a test can set. */
function createChannel(initialState: connectivityState) {
  let state = initialState;
  let watches: (() => void)[] = [];
  return {
    getConnectivityState: () => state,
    watchConnectivityState: (_: connectivityState, __: number, onChange: () => void) => void watches.push(onChange),
    countWatches: () => watches.length,
    change(newState: connectivityState) {
      state = newState;
      const changedWatches = watches;
      watches = [];
      for (const onChange of changedWatches) onChange();
    },
  };
}

describe("the watch of a connection to the event log", () => {
  const watch = (channel: ReturnType<typeof createChannel>, calls: string[], name: string) =>
    onReconnection(channel as never, () => calls.push(name));

  it("calls listeners when the channel connects again or closes, but not when it connects first", () => {
    const channel = createChannel(IDLE);
    const calls: string[] = [];
    watch(channel, calls, "early");
    channel.change(READY);
    channel.change(IDLE);
    watch(channel, calls, "late");
    expect(calls).to.deep.equal([]);
    channel.change(READY);
    expect(calls).to.deep.equal(["early"]);
    channel.change(SHUTDOWN);
    expect(calls).to.deep.equal(["early", "early", "late"]);
    watch(channel, calls, "closed");
    expect(calls.at(-1)).to.equal("closed");
  });

  it("does not call a removed listener, and watches a channel once for all listeners", () => {
    const channel = createChannel(READY);
    const calls: string[] = [];
    for (let count = 0; count < 100; count += 1) watch(channel, calls, "removed")();
    expect(channel.countWatches()).to.equal(1);
    channel.change(SHUTDOWN);
    expect([calls, channel.countWatches()]).to.deep.equal([[], 0]);
  });

  it("ended subscriptions leave nothing behind on their connection", async () => {
    const client = connectToLog((await getTestServers()).eventstoreUrl);
    const channel = await toGrpcClient(client).getChannel();
    const watchConnectivityState = channel.watchConnectivityState.bind(channel);
    let watchCount = 0;
    channel.watchConnectivityState = (state, deadline, callback) => {
      watchCount += 1;
      watchConnectivityState(state, deadline, (error) => {
        watchCount -= 1;
        callback(error);
      });
    };
    for (let count = 0; count < 20; count += 1) {
      const { signal } = new AbortController();
      const subscription = subscribeToLog({ client, after: undefined, signal });
      await subscription.next();
      await subscription.return();
    }
    expect(watchCount).to.be.at.most(2);
  });
});
