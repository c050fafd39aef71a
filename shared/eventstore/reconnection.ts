import { type Channel, connectivityState } from "@grpc/grpc-js";

interface Watch {
  listener(): void;
  /** True if the channel has been connected since the watch began. */
  wasReady: boolean;
}

const watchesByChannel = new WeakMap<Channel, Set<Watch>>();

/**
 * Calls the listener when the channel has closed or has connected again. Its earlier calls keep their connection. All
 * listeners share one watch of the channel, because gRPC cannot remove a watch.
 *
 * @returns a function that removes the listener
 */
export function onReconnection(channel: Channel, listener: () => void): () => void {
  const state = channel.getConnectivityState(false);
  if (state === connectivityState.SHUTDOWN) {
    listener();
    return () => {};
  }
  const watches = watchesByChannel.get(channel) ?? new Set();
  if (!watchesByChannel.has(channel)) {
    watchesByChannel.set(channel, watches);
    watchState(channel, state, watches);
  }
  const watch = { listener, wasReady: state === connectivityState.READY };
  watches.add(watch);
  return () => watches.delete(watch);
}

function watchState(channel: Channel, stateBefore: connectivityState, watches: ReadonlySet<Watch>): void {
  channel.watchConnectivityState(stateBefore, Number.POSITIVE_INFINITY, () => {
    const state = channel.getConnectivityState(false);
    const [isClosed, isReady] = [state === connectivityState.SHUTDOWN, state === connectivityState.READY];
    if (!isClosed) watchState(channel, state, watches);
    for (const watch of watches) {
      if (isClosed || (isReady && watch.wasReady)) watch.listener();
      watch.wasReady ||= isReady;
    }
  });
}
