import { randomUUID } from "node:crypto";
import type { IGossipServer } from "@eventstore/db-client/generated/gossip_grpc_pb.js";
import type { ClusterInfo } from "@eventstore/db-client/generated/gossip_pb.js";
import type { IServerFeaturesServer } from "@eventstore/db-client/generated/serverfeatures_grpc_pb.js";
import type { SupportedMethods } from "@eventstore/db-client/generated/serverfeatures_pb.js";
import type { IStreamsServer } from "@eventstore/db-client/generated/streams_grpc_pb.js";
import type { ReadReq } from "@eventstore/db-client/generated/streams_pb.js";
import type { handleServerStreamingCall, Server, sendUnaryData } from "@grpc/grpc-js";
import { features, featuresGrpc, gossip, gossipGrpc, shared, streamsGrpc } from "../model/pb.ts";
import type { Store } from "../store/store.ts";
import { serveAppend, softDeleteStream, tombstoneStream } from "./append.ts";
import { serveBatchAppend } from "./batch-append.ts";
import { type CallError, toCallError } from "./errors.ts";
import { FlowControlledWriter, type ReadCall } from "./flow-controlled-writer.ts";
import { sendEvents } from "./read.ts";
import { parseReadRequest } from "./read-request.ts";
import { subscribe } from "./subscription.ts";

/** The log's gRPC services. Maps each method to the function that handles it. */

/** Reads send bytes that are already encoded. */
type StreamsServer = Pick<IStreamsServer, "append" | "batchAppend" | "delete" | "tombstone"> & {
  readonly read: handleServerStreamingCall<ReadReq, Uint8Array>;
};

/** Has no serializer for the responses of `read`, which are already encoded. */
const STREAMS_SERVICE = {
  ...streamsGrpc.StreamsService,
  read: { ...streamsGrpc.StreamsService.read, responseSerialize: toBuffer },
};

/** Adds the log's services. gRPC returns UNIMPLEMENTED for all other methods. */
export function addServices(server: Server, store: Store, calls: OpenCalls): void {
  const toErrorHandler =
    <T>(respond: sendUnaryData<T>) =>
    (error: unknown) =>
      respond(toCallError(error, store.printLine));
  const answer = <T>(response: Promise<T>, respond: sendUnaryData<T>) =>
    void response.then((message) => respond(null, message), toErrorHandler(respond));
  const streamsServer = {
    read: (call) => {
      calls.add(call);
      void serveRead(store, call);
    },
    batchAppend: (call) => {
      calls.add(call);
      serveBatchAppend(store, call);
    },
    append: (call, respond) => serveAppend(store, call, respond, toErrorHandler(respond)),
    delete: (call, respond) => answer(softDeleteStream(store, call.request, call.getDeadline()), respond),
    tombstone: (call, respond) => answer(tombstoneStream(store, call.request, call.getDeadline()), respond),
  } satisfies StreamsServer;
  server.addService(STREAMS_SERVICE, streamsServer);
  const featuresServer = {
    getSupportedMethods: (_, respond) => respond(null, listSupportedMethods()),
  } satisfies Pick<IServerFeaturesServer, "getSupportedMethods">;
  server.addService(featuresGrpc.ServerFeaturesService, featuresServer);
  const instanceId = randomUUID();
  const gossipServer = {
    read: (call, respond) => respond(null, createClusterInfo(call.getHost(), instanceId)),
  } satisfies Pick<IGossipServer, "read">;
  server.addService(gossipGrpc.GossipService, gossipServer);
}

async function serveRead(store: Store, call: ReadCall): Promise<void> {
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

interface OpenCall {
  readonly cancelled: boolean;
  readonly writableEnded: boolean;
  on(event: "close" | "cancelled", listener: () => void): unknown;
  emit(event: "error", error: Error): boolean;
}

/** Tracks open calls of Streams.Read and Streams.BatchAppend, so that a shutdown can end them. */
export class OpenCalls {
  readonly #calls = new Set<OpenCall>();

  add(call: OpenCall): void {
    this.#calls.add(call);
    for (const event of ["close", "cancelled"] as const) call.on(event, () => this.#calls.delete(call));
  }

  endAll(error: CallError): void {
    for (const call of this.#calls) endWithError(call, error);
  }
}

/** Ends a call with an error. gRPC first sends all earlier messages. */
function endWithError(call: OpenCall, error: CallError): void {
  // Emits `error` instead of calling destroy(), because destroy() would drop the error's status.
  if (!call.cancelled && !call.writableEnded) call.emit("error", error);
}

const PROTOCOL_VERSION = "24.6.0";

/** In lower case, because the client compares lower-case names. */
const STREAMS_SERVICE_NAME = "event_store.client.streams.streams";

const SUPPORTED_METHODS: readonly (readonly [method: string, features: readonly string[]])[] = [
  ["read", ["position", "events"]],
  ["append", []],
  ["batchappend", []],
  ["delete", []],
  ["tombstone", []],
];

function listSupportedMethods(): SupportedMethods {
  const methods = SUPPORTED_METHODS.map(([method, featureNames]) =>
    new features.SupportedMethod()
      .setServiceName(STREAMS_SERVICE_NAME)
      .setMethodName(method)
      .setFeaturesList([...featureNames]),
  );
  return new features.SupportedMethods().setEventStoreServerVersion(PROTOCOL_VERSION).setMethodsList(methods);
}

const TICKS_PER_MS = 10_000n;

/**
 * Creates the response of Gossip.Read, which clients need for connection strings with discovery or several hosts. The
 * cluster has one member. The member has the address to which the client connected, because the client can reach it.
 *
 * @param authority host and port to which the client connected
 */
function createClusterInfo(authority: string, instanceId: string): ClusterInfo {
  const [, host = authority, port = "80"] = /^\[?(.*?)\]?:(\d+)$/.exec(authority) ?? [];
  const member = new gossip.MemberInfo()
    .setInstanceId(new shared.UUID().setString(instanceId))
    .setTimeStamp(String(BigInt(Date.now()) * TICKS_PER_MS))
    .setState(gossip.MemberInfo.VNodeState.LEADER)
    .setIsAlive(true)
    .setHttpEndPoint(new gossip.EndPoint().setAddress(host).setPort(Number(port)));
  return new gossip.ClusterInfo().setMembersList([member]);
}
