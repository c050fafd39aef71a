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

/** Values of google.rpc.Code in responses of BatchAppend. */
const CODE = {
  UNKNOWN: 2,
  INVALID_ARGUMENT: 3,
  DEADLINE_EXCEEDED: 4,
  NOT_FOUND: 5,
  ALREADY_EXISTS: 6,
} as const;

/** Values of an append request that the response repeats. */
export interface AnswerContext {
  readonly correlationId: UUID;
  readonly identifier: StreamIdentifier;
  readonly expected: number;
}

/** Creates the response to an append that was decided. */
export function answerResult(to: AnswerContext, result: WriteResult): BatchAppendResp {
  switch (result.outcome) {
    case "written":
      return answerSuccess(to, result.revision, result.position);
    case "wrong-revision":
      return sendError(
        to,
        CODE.ALREADY_EXISTS,
        "WrongExpectedVersion",
        wrongVersion(to.expected, result.current),
      );
    case "deleted": {
      const details = new shared.StreamDeleted().setStreamIdentifier(to.identifier);
      return sendError(to, CODE.NOT_FOUND, "StreamDeleted", details);
    }
  }
}

/**
 * Creates the response to an append whose deadline passed, or for which the queue or the disk is full. Any other error for
 * an append that can be retried makes the client close its connection.
 */
export function answerTimeout(to: AnswerContext): BatchAppendResp {
  return sendError(to, CODE.DEADLINE_EXCEEDED, "Timeout", new shared.Timeout());
}

/** Creates the response to an append that was refused, where a retry would not help. */
export function answerRefusal(to: AnswerContext, error: CallError): BatchAppendResp {
  if (error.metadata.get("exception")[0] === "maximum-append-size-exceeded") {
    const details = new shared.MaximumAppendSizeExceeded().setMaxappendsize(MAX_APPEND_BYTES);
    return sendError(to, CODE.INVALID_ARGUMENT, "MaximumAppendSizeExceeded", details);
  }
  const code = error.code === grpcStatus.INVALID_ARGUMENT ? CODE.INVALID_ARGUMENT : CODE.UNKNOWN;
  const details = new shared.BadRequest().setMessage(error.details);
  return sendError(to, code, "BadRequest", details, error.details);
}

function answerSuccess(to: AnswerContext, revision: number, position: number): BatchAppendResp {
  const success = new streams.BatchAppendResp.Success();
  if (revision < 0) success.setNoStream(new empty.Empty());
  else success.setCurrentRevision(String(revision));
  const at = new shared.AllStreamPosition();
  success.setPosition(at.setCommitPosition(String(position)).setPreparePosition(String(position)));
  return answer(to).setSuccess(success);
}

function sendError(
  to: AnswerContext,
  code: number,
  type: string,
  details: Message,
  message: string = type,
): BatchAppendResp {
  const packed = new any.Any();
  packed.pack(details.serializeBinary(), `event_store.client.${type}`);
  return answer(to).setError(new status.Status().setCode(code).setMessage(message).setDetails(packed));
}

function answer(to: AnswerContext): BatchAppendResp {
  return new streams.BatchAppendResp().setCorrelationId(to.correlationId).setStreamIdentifier(to.identifier);
}

function wrongVersion(expected: number, current: number): Message {
  const details = new shared.WrongExpectedVersion();
  if (current < 0) details.setCurrentNoStream(new empty.Empty());
  else details.setCurrentStreamRevision(String(current));
  if (expected === ANY) return details.setExpectedAny(new empty.Empty());
  if (expected === NO_STREAM) return details.setExpectedNoStream(new empty.Empty());
  if (expected === STREAM_EXISTS) return details.setExpectedStreamExists(new empty.Empty());
  return details.setExpectedStreamPosition(String(expected));
}
