import { type EventStoreDBClient, UnavailableError } from "@eventstore/db-client";
import type { Channel, Client, connectivityState, experimental } from "@grpc/grpc-js";

/**
 * Protected and private members of the client. Requests through these members share the client's connection, discovery,
 * TLS and credentials.
 */
interface GrpcClient {
  execute: EventStoreDBClient["execute"];
  callArguments: EventStoreDBClient["callArguments"];
  GRPCStreamCreator: EventStoreDBClient["GRPCStreamCreator"];
  /** Calls that `dispose` cancels. */
  disposableStreams: Set<unknown>;
  /** Returns the connection for the next requests. After an UNAVAILABLE error, the client replaces the connection. */
  getChannel(): Promise<Channel>;
  createChannel(): Promise<Channel>;
  /** Replaces the connection of a failed request if the error says that the server is unavailable. */
  handleError(grpc: Pick<Client, "getChannel">, error: Error): Promise<void>;
}

/** Gives access to the non-public members of the client. No other code accesses them. */
export const toGrpcClient = (client: EventStoreDBClient) => client as unknown as GrpcClient;

/** Time limit of an attempt to connect, in milliseconds. */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Makes a client ignore HTTP proxies, replace every connection that fails, and receive uncompressed messages.
 * Otherwise, a connection to a server that does not respond would last until a restart.
 */
export function prepareConnections(client: EventStoreDBClient): void {
  // Otherwise gRPC sends all connections through the proxy in `https_proxy` or `http_proxy`, even those to 127.0.0.1. The
  // client has no option for it. Every host name ends with the empty entries of this list.
  process.env.no_grpc_proxy = ",";
  const grpcClient = toGrpcClient(client);
  const { createChannel, handleError } = grpcClient;
  // The client does not wait for this function. It rejects if the next search for a leader has failed meanwhile, and an
  // unhandled rejection would end the process. The caller of the request receives the request's own error.
  grpcClient.handleError = (...failure) => handleError(...failure).catch(() => undefined);
  grpcClient.createChannel = async () => {
    const channel = await createChannel();
    refuseCompression(channel);
    limitConnecting(channel, () => grpcClient.handleError({ getChannel: () => channel }, new UnavailableError()));
    return channel;
  };
}

const [CONNECTING, SHUTDOWN]: [connectivityState.CONNECTING, connectivityState.SHUTDOWN] = [1, 4];

/** Calls `replace` if a server accepts a connection but does not respond, because requests would wait forever. */
function limitConnecting(channel: Channel, replace: () => void): void {
  const state = channel.getConnectivityState(false);
  if (state === SHUTDOWN) return;
  const deadline = state === CONNECTING ? Date.now() + CONNECT_TIMEOUT_MS : Number.POSITIVE_INFINITY;
  channel.watchConnectivityState(state, deadline, (error) => (error ? replace() : limitConnecting(channel, replace)));
}

/** Private members of a channel of grpc-js 1.14. A test checks them against the installed version. */
interface ChannelWithFilters {
  internalChannel: { filterStackFactory: { factories: experimental.FilterFactory<experimental.Filter>[] } };
}

/**
 * Makes servers send uncompressed messages on a channel. KurrentDB 25.1 and later compress every message for clients
 * that accept gzip. Without compression, KurrentDB 26.1 on two cores sends 19,000 events/s instead of 3,600 to 5,400,
 * and a rebuild handles 8,900 events/s instead of 2,700.
 *
 * grpc-js sets the header `grpc-accept-encoding` to `identity,deflate,gzip` in a filter that runs after all
 * interceptors, and has no option for the header. This function adds another filter, which removes the header. Other
 * channels of the process do not change.
 */
function refuseCompression(channel: Channel): void {
  const { factories } = (channel as unknown as ChannelWithFilters).internalChannel.filterStackFactory;
  factories.push({
    createFilter: () => ({
      async sendMetadata(metadata) {
        const headers = await metadata;
        headers.remove("grpc-accept-encoding");
        return headers;
      },
      receiveMetadata: (metadata) => metadata,
      sendMessage: (message) => message,
      receiveMessage: (message) => message,
      receiveTrailers: (status) => status,
    }),
  });
}
