import { type EventStoreDBClient, UnavailableError } from "@eventstore/db-client";
import { StreamsClient } from "@eventstore/db-client/generated/streams_grpc_pb.js";
import type { Channel, Client, connectivityState } from "@grpc/grpc-js";
import { refuseCompression } from "./compression.ts";
import { accelerateReads } from "./response-decoder.ts";

/**
 * Members with which the client sends its own requests. They are protected or private. Requests that use them share the
 * client's connection with its discovery, TLS and credentials.
 */
interface GrpcClient {
  execute: EventStoreDBClient["execute"];
  callArguments: EventStoreDBClient["callArguments"];
  GRPCStreamCreator: EventStoreDBClient["GRPCStreamCreator"];
  /** Calls that `dispose` cancels. */
  disposableStreams: Set<unknown>;
  /** Returns the connection of the next requests. The client replaces it if the server is unavailable to a request. */
  getChannel(): Promise<Channel>;
  /** Creates a connection. */
  createChannel(): Promise<Channel>;
  /** Creates the gRPC client of a service on the connection. */
  createGRPCClient<T extends Client>(ServiceClient: new (...options: never[]) => T): Promise<T>;
  /** Replaces the connection of a failed request if the error says that the server is unavailable. */
  handleError(grpc: Pick<Client, "getChannel">, error: Error): Promise<void>;
}

/** The only access to protected members of the client. */
export const toGrpcClient = (client: EventStoreDBClient) => client as unknown as GrpcClient;

/** Time limit of an attempt to connect. */
const CONNECT_TIMEOUT_MS = 10_000;

/**
 * Makes a client connect directly, replace every connection that fails, receive uncompressed messages, and decode events
 * faster. Without this function, two failures last until a restart.
 */
export function prepareConnections(client: EventStoreDBClient): void {
  // Otherwise gRPC sends all connections through the proxy in `https_proxy` or `http_proxy`, even those to 127.0.0.1. The
  // client has no option for it. Every host name ends with the empty entries of this list.
  process.env.no_grpc_proxy = ",";
  const grpcClient = toGrpcClient(client);
  const { createChannel, createGRPCClient, handleError } = grpcClient;
  // The client does not wait for this function. It rejects if the next search for a leader has failed meanwhile, and an
  // unhandled rejection would end the process. The caller of the request receives the request's own error.
  grpcClient.handleError = (...failure) => handleError(...failure).catch(() => undefined);
  grpcClient.createChannel = async () => {
    const channel = await createChannel();
    refuseCompression(channel);
    limitConnecting(channel, () => grpcClient.handleError({ getChannel: () => channel }, new UnavailableError()));
    return channel;
  };
  grpcClient.createGRPCClient = async (ServiceClient) => {
    const serviceClient = await createGRPCClient(ServiceClient);
    if (serviceClient instanceof StreamsClient) accelerateReads(serviceClient);
    return serviceClient;
  };
}

const [CONNECTING, SHUTDOWN]: [connectivityState.CONNECTING, connectivityState.SHUTDOWN] = [1, 4];

/** Calls `replace` if a server accepts a connection but does not respond. Requests would wait for it without end. */
function limitConnecting(channel: Channel, replace: () => void): void {
  const state = channel.getConnectivityState(false);
  if (state === SHUTDOWN) return;
  const deadline = state === CONNECTING ? Date.now() + CONNECT_TIMEOUT_MS : Number.POSITIVE_INFINITY;
  channel.watchConnectivityState(state, deadline, (error) => (error ? replace() : limitConnecting(channel, replace)));
}
