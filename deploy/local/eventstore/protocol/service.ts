/** The log's gRPC services. Maps each method to the function that handles it. */
import { randomUUID } from "node:crypto";
import type { IGossipServer } from "@eventstore/db-client/generated/gossip_grpc_pb.js";
import type { IServerFeaturesServer } from "@eventstore/db-client/generated/serverfeatures_grpc_pb.js";
import type { IStreamsServer } from "@eventstore/db-client/generated/streams_grpc_pb.js";
import type { ReadReq } from "@eventstore/db-client/generated/streams_pb.js";
import type { handleServerStreamingCall, Server, sendUnaryData } from "@grpc/grpc-js";
import { featuresGrpc, gossipGrpc, streamsGrpc } from "../model/pb.ts";
import type { Store } from "../store/store.ts";
import { serveAppend } from "./append.ts";
import { BatchAppendSession } from "./batch-append.ts";
import { endWithError, type OpenCalls } from "./calls.ts";
import { softDeleteStream, tombstoneStream } from "./delete.ts";
import { createClusterInfo, listSupportedMethods } from "./discovery.ts";
import { toCallError } from "./errors.ts";
import { FlowControlledWriter, type ReadCall } from "./flow-controlled-writer.ts";
import { sendEvents } from "./read.ts";
import { parseReadRequest } from "./read-request.ts";
import { subscribe } from "./subscription.ts";

export interface ServiceContext {
  readonly store: Store;
  readonly calls: OpenCalls;
  /** Returns the port of the server. The port is known only after the server has started to listen. */
  readonly getPort: () => number;
}

/** Handlers of the Streams service. Reads send bytes that are already encoded. */
type StreamsServer = Pick<IStreamsServer, "append" | "batchAppend" | "delete" | "tombstone"> & {
  readonly read: handleServerStreamingCall<ReadReq, Uint8Array>;
};

/** Definition of the Streams service, without a serializer for the responses of `read`. */
const STREAMS_SERVICE = {
  ...streamsGrpc.StreamsService,
  read: { ...streamsGrpc.StreamsService.read, responseSerialize: toBuffer },
};

/** Adds the log's services to a server. For all other methods, gRPC returns UNIMPLEMENTED. */
export function addServices(server: Server, context: ServiceContext): void {
  const { store, calls } = context;
  const toErrorHandler =
    <T>(respond: sendUnaryData<T>) =>
    (error: unknown) =>
      respond(toCallError(error, store.printLine));
  const streamsServer = {
    read: (call) => {
      calls.add(call);
      void serveRead(context, call);
    },
    batchAppend: (call) => {
      calls.add(call);
      new BatchAppendSession(store, call).start();
    },
    append: (call, respond) => serveAppend(store, call, respond, toErrorHandler(respond)),
    delete: (call, respond) => {
      softDeleteStream(store, call.request, call.getDeadline()).then(
        (response) => respond(null, response),
        toErrorHandler(respond),
      );
    },
    tombstone: (call, respond) => {
      tombstoneStream(store, call.request, call.getDeadline()).then(
        (response) => respond(null, response),
        toErrorHandler(respond),
      );
    },
  } satisfies StreamsServer;
  server.addService(STREAMS_SERVICE, streamsServer);
  const featuresServer = {
    getSupportedMethods: (_, respond) => respond(null, listSupportedMethods()),
  } satisfies Pick<IServerFeaturesServer, "getSupportedMethods">;
  server.addService(featuresGrpc.ServerFeaturesService, featuresServer);
  const instanceId = randomUUID();
  const gossipServer = {
    read: (call, respond) => respond(null, createClusterInfo(call.getHost(), context.getPort(), instanceId)),
  } satisfies Pick<IGossipServer, "read">;
  server.addService(gossipGrpc.GossipService, gossipServer);
}

async function serveRead({ store }: ServiceContext, call: ReadCall): Promise<void> {
  const writer = new FlowControlledWriter(call);
  try {
    const request = parseReadRequest(call.request);
    const readContext = { store, writer, request };
    if (request.maxCount === "live") await subscribe(readContext);
    else await sendEvents(readContext, request.maxCount);
    if (!writer.isClosed) call.end();
  } catch (error) {
    // A disconnected client cannot receive the error.
    if (!writer.isClosed) endWithError(call, toCallError(error, store.printLine));
  }
}

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
