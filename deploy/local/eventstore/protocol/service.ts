/** The gRPC services of the log. Maps each method to its function. */
import { randomUUID } from "node:crypto";
import type { ClusterInfo } from "@eventstore/db-client/generated/gossip_pb.js";
import type { SupportedMethods } from "@eventstore/db-client/generated/serverfeatures_pb.js";
import type { Empty } from "@eventstore/db-client/generated/shared_pb.js";
import type {
  AppendReq,
  AppendResp,
  DeleteReq,
  DeleteResp,
  TombstoneReq,
  TombstoneResp,
} from "@eventstore/db-client/generated/streams_pb.js";
import type { Server, ServerReadableStream, ServerUnaryCall, sendUnaryData } from "@grpc/grpc-js";
import { featuresGrpc, gossipGrpc, streamsGrpc } from "../model/pb.ts";
import type { Store } from "../store/store.ts";
import { serveAppend } from "./append.ts";
import { type BatchAppendCall, serveBatchAppend } from "./batch-append.ts";
import { endWithError, type OpenCalls } from "./calls.ts";
import { softDelete, tombstone } from "./delete.ts";
import { createClusterInfo, listSupportedMethods } from "./discovery.ts";
import { toCallError } from "./errors.ts";
import { FlowControlledWriter, type ReadCall } from "./flow-controlled-writer.ts";
import { sendEvents } from "./read.ts";
import { parseReadRequest } from "./read-request.ts";
import { subscribe } from "./subscription.ts";

export interface ServiceContext {
  readonly store: Store;
  readonly calls: OpenCalls;
  readonly log: (line: string) => void;
  /** Returns the port of the server. The port is known only when the server listens. */
  readonly getPort: () => number;
}

/** The Streams service, with a read method that sends messages that are already encoded. */
const STREAMS_SERVICE = {
  ...streamsGrpc.StreamsService,
  read: { ...streamsGrpc.StreamsService.read, responseSerialize: toBuffer },
};

/** Adds the log's services to a server. For all other methods, gRPC returns UNIMPLEMENTED. */
export function addServices(server: Server, context: ServiceContext): void {
  const { store, calls, log } = context;
  const fail =
    <T>(answer: sendUnaryData<T>) =>
    (error: unknown) =>
      answer(toCallError(error, log));
  server.addService(STREAMS_SERVICE, {
    read: (call: ReadCall) => {
      calls.add(call);
      void serveRead(context, call);
    },
    batchAppend: (call: BatchAppendCall) => {
      calls.add(call);
      serveBatchAppend(store, call, log);
    },
    append: (call: ServerReadableStream<AppendReq, AppendResp>, answer: sendUnaryData<AppendResp>) =>
      serveAppend(store, call, answer, fail(answer)),
    delete: (call: ServerUnaryCall<DeleteReq, DeleteResp>, answer: sendUnaryData<DeleteResp>) =>
      softDelete(store, call.request, call.getDeadline()).then((done) => answer(null, done), fail(answer)),
    tombstone: (call: ServerUnaryCall<TombstoneReq, TombstoneResp>, answer: sendUnaryData<TombstoneResp>) =>
      tombstone(store, call.request, call.getDeadline()).then((done) => answer(null, done), fail(answer)),
  });
  server.addService(featuresGrpc.ServerFeaturesService, {
    getSupportedMethods: (
      _: ServerUnaryCall<Empty, SupportedMethods>,
      answer: sendUnaryData<SupportedMethods>,
    ) => answer(null, listSupportedMethods()),
  });
  const instanceId = randomUUID();
  server.addService(gossipGrpc.GossipService, {
    read: (call: ServerUnaryCall<Empty, ClusterInfo>, answer: sendUnaryData<ClusterInfo>) =>
      answer(null, createClusterInfo(call.getHost(), context.getPort(), instanceId, Date.now())),
  });
}

async function serveRead(context: ServiceContext, call: ReadCall): Promise<void> {
  const writer = new FlowControlledWriter(call);
  try {
    const request = parseReadRequest(call.request);
    if (request.maxCount === "live") await subscribe(context.store, writer, request);
    else await sendEvents(context.store, writer, request, request.maxCount);
    if (!writer.isClosed) call.end();
  } catch (error) {
    // A disconnected client cannot receive the error.
    if (!writer.isClosed) endWithError(call, toCallError(error, context.log));
  }
}

function toBuffer(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}
