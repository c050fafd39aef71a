/** Calls the log's gRPC services directly, for requests that the client package never sends. */
import sharedPb from "@eventstore/db-client/generated/shared_pb.js";
import type { StreamsClient } from "@eventstore/db-client/generated/streams_grpc_pb.js";
import grpcStreams from "@eventstore/db-client/generated/streams_grpc_pb.js";
import type { BatchAppendReq, BatchAppendResp, ReadResp } from "@eventstore/db-client/generated/streams_pb.js";
import streamsPb from "@eventstore/db-client/generated/streams_pb.js";
import { credentials, type ServiceError } from "@grpc/grpc-js";
import { releaseLater } from "../../support/resources.ts";

export const streams = streamsPb;
export const shared = sharedPb;

process.env.no_grpc_proxy = "127.0.0.1,localhost";

export function createRawClient(port: number): StreamsClient {
  const client = new grpcStreams.StreamsClient(`127.0.0.1:${port}`, credentials.createInsecure());
  releaseLater(() => client.close());
  return client;
}

export function createStreamIdentifier(name: string | Uint8Array) {
  return new shared.StreamIdentifier().setStreamName(typeof name === "string" ? Buffer.from(name) : name);
}

export function createTextId(id: string) {
  return new shared.UUID().setString(id);
}

export function createProposedMessage(id: InstanceType<typeof sharedPb.UUID>, type = "Raw") {
  const message = new streams.BatchAppendReq.ProposedMessage().setId(id).setData(Buffer.from("{}"));
  message.getMetadataMap().set("type", type).set("content-type", "application/json");
  return message;
}

/** Creates options for a read of all streams from the start. Callers can change them. */
export function createReadOptions() {
  const textOption = new streams.ReadReq.Options.UUIDOption().setString(new shared.Empty());
  return new streams.ReadReq.Options()
    .setAll(new streams.ReadReq.Options.AllOptions().setStart(new shared.Empty()))
    .setCount("10")
    .setNoFilter(new shared.Empty())
    .setUuidOption(textOption);
}

/** Performs a read. Returns all responses, and the error if the read failed. */
export function sendRead(
  client: StreamsClient,
  options: ReturnType<typeof createReadOptions>,
): Promise<{ responses: ReadResp[]; error: ServiceError | undefined }> {
  return new Promise((resolve) => {
    const responses: ReadResp[] = [];
    const call = client.read(new streams.ReadReq().setOptions(options));
    call.on("data", (response: ReadResp) => responses.push(response));
    call.on("error", (error: ServiceError) => resolve({ responses, error }));
    call.on("end", () => resolve({ responses, error: undefined }));
  });
}

/** Sends requests on one BatchAppend call. Returns all responses, and the error if the call failed. */
export function sendBatchAppend(
  client: StreamsClient,
  requests: readonly BatchAppendReq[],
): Promise<{ appendResponses: BatchAppendResp[]; error: ServiceError | undefined }> {
  return new Promise((resolve) => {
    const appendResponses: BatchAppendResp[] = [];
    const call = client.batchAppend();
    call.on("data", (response: BatchAppendResp) => appendResponses.push(response));
    call.on("error", (error: ServiceError) => resolve({ appendResponses, error }));
    call.on("end", () => resolve({ appendResponses, error: undefined }));
    for (const request of requests) call.write(request);
    call.end();
  });
}
