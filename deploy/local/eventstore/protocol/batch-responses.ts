/** Responses of BatchAppend. A response can contain an error, so a refused append does not end the call. */
import type { StreamIdentifier, UUID } from "@eventstore/db-client/generated/shared_pb.js";
import type { BatchAppendResp } from "@eventstore/db-client/generated/streams_pb.js";
import { status as grpcStatus } from "@grpc/grpc-js";
import type { Message } from "google-protobuf";
import { ANY, NO_STREAM, STREAM_EXISTS } from "../model/append-rules.ts";
import { MAX_APPEND_BYTES } from "../model/limits.ts";
import { any, empty, shared, status, streams } from "../model/pb.ts";
import type { WriteResult } from "../store/staged-group.ts";
import type { CallError } from "./errors.ts";

/** Values that a response repeats from the append request. */
export interface AppendContext {
  readonly correlationId: UUID;
  readonly streamIdentifier: StreamIdentifier;
  readonly expectedRevision: number;
}

/** Creates the response for a write result: written, wrong revision or deleted stream. */
export function createResultResponse(context: AppendContext, writeResult: WriteResult): BatchAppendResp {
  switch (writeResult.outcome) {
    case "written":
      return createSuccessResponse(context, writeResult.revision, writeResult.position);
    case "wrong-revision": {
      const details = encodeWrongVersion(context.expectedRevision, writeResult.currentRevision);
      return createErrorResponse(context, grpcStatus.ALREADY_EXISTS, "WrongExpectedVersion", details);
    }
    case "deleted": {
      const details = new shared.StreamDeleted().setStreamIdentifier(context.streamIdentifier);
      return createErrorResponse(context, grpcStatus.NOT_FOUND, "StreamDeleted", details);
    }
  }
}

/**
 * Creates the response to an append that the client can retry: its deadline passed, or the queue or the disk is full.
 * If the response contained a different error, the client would close its connection.
 */
export function createTimeoutResponse(context: AppendContext): BatchAppendResp {
  return createErrorResponse(context, grpcStatus.DEADLINE_EXCEEDED, "Timeout", new shared.Timeout());
}

/** Creates the response to a refused append that the client should not retry. */
export function createRefusalResponse(context: AppendContext, error: CallError): BatchAppendResp {
  if (error.metadata.get("exception")[0] === "maximum-append-size-exceeded") {
    const details = new shared.MaximumAppendSizeExceeded().setMaxappendsize(MAX_APPEND_BYTES);
    return createErrorResponse(context, grpcStatus.INVALID_ARGUMENT, "MaximumAppendSizeExceeded", details);
  }
  const code = error.code === grpcStatus.INVALID_ARGUMENT ? grpcStatus.INVALID_ARGUMENT : grpcStatus.UNKNOWN;
  const details = new shared.BadRequest().setMessage(error.details);
  return createErrorResponse(context, code, "BadRequest", details, error.details);
}

function createSuccessResponse(
  context: AppendContext,
  revision: number,
  position: number | undefined,
): BatchAppendResp {
  const successMessage = new streams.BatchAppendResp.Success();
  if (revision < 0) successMessage.setNoStream(new empty.Empty());
  else successMessage.setCurrentRevision(String(revision));
  if (position === undefined) successMessage.setNoPosition(new empty.Empty());
  else {
    const text = String(position);
    successMessage.setPosition(new shared.AllStreamPosition().setCommitPosition(text).setPreparePosition(text));
  }
  return createResponse(context).setSuccess(successMessage);
}

/** @param code value of google.rpc.Code, which has the numbers of gRPC's status codes */
function createErrorResponse(
  context: AppendContext,
  code: number,
  type: string,
  details: Message,
  message: string = type,
): BatchAppendResp {
  const anyMessage = new any.Any();
  anyMessage.pack(details.serializeBinary(), `event_store.client.${type}`);
  return createResponse(context).setError(new status.Status().setCode(code).setMessage(message).setDetails(anyMessage));
}

function createResponse(context: AppendContext): BatchAppendResp {
  return new streams.BatchAppendResp()
    .setCorrelationId(context.correlationId)
    .setStreamIdentifier(context.streamIdentifier);
}

function encodeWrongVersion(expectedRevision: number, currentRevision: number): Message {
  const details = new shared.WrongExpectedVersion();
  if (currentRevision < 0) details.setCurrentNoStream(new empty.Empty());
  else details.setCurrentStreamRevision(String(currentRevision));
  if (expectedRevision === ANY) return details.setExpectedAny(new empty.Empty());
  if (expectedRevision === NO_STREAM) return details.setExpectedNoStream(new empty.Empty());
  if (expectedRevision === STREAM_EXISTS) return details.setExpectedStreamExists(new empty.Empty());
  return details.setExpectedStreamPosition(String(expectedRevision));
}
