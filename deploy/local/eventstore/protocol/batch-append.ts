/**
 * Streams.BatchAppend, a long-lived call on which a client sends many appends, as the services do. Each append has a
 * correlation id and one or more parts. The log sends one response for each append.
 */
import type { StreamIdentifier, UUID } from "@eventstore/db-client/generated/shared_pb.js";
import type { BatchAppendReq, BatchAppendResp } from "@eventstore/db-client/generated/streams_pb.js";
import { status as grpcStatus, type ServerDuplexStream } from "@grpc/grpc-js";
import type { Message } from "google-protobuf";
import { ANY, NO_STREAM, STREAM_EXISTS } from "../model/append-rules.ts";
import { any, empty, shared, status, streams } from "../model/pb.ts";
import type { WriteOutcome } from "../store/group-commit.ts";
import type { Store } from "../store/store.ts";
import {
  CallError,
  createInvalidArgumentError,
  createUnavailableError,
  MAX_APPEND_BYTES,
  toCallError,
} from "./errors.ts";
import { MAX_QUEUED_MESSAGES } from "./flow-controlled-writer.ts";
import {
  AppendEventList,
  parseExpectedState,
  parseUint64,
  parseUuid,
  parseWritableStreamName,
} from "./request-parts.ts";

/**
 * Maximum number of unfinished appends of one BatchAppend call. An append is unfinished until its last part arrives. If
 * a call exceeds the limit, it fails.
 */
const MAX_UNFINISHED_APPENDS = 64;

type BatchAppendCall = ServerDuplexStream<BatchAppendReq, BatchAppendResp>;

/** Append whose last part has not arrived yet. */
interface UnfinishedAppend {
  readonly context: AppendContext;
  readonly deadline: number;
  readonly events: AppendEventList;
}

/** Serves a call until the client ends it and all of its appends are answered. */
export function serveBatchAppend(store: Store, call: BatchAppendCall): void {
  const unfinishedAppends = new Map<string, UnfinishedAppend>();
  let pendingWrites = 0;
  let isHalfClosed = false;

  call.on("data", (request: BatchAppendReq) => {
    try {
      receivePart(request);
    } catch (error) {
      endWithError(error);
    }
  });
  call.on("drain", () => call.resume());
  call.on("end", () => {
    isHalfClosed = true;
    endIfComplete();
  });

  function receivePart(request: BatchAppendReq): void {
    const correlationId = parseUuid(request.getCorrelationId(), "A correlation id");
    if (request.hasOptions()) startAppend(correlationId, request);
    const append = unfinishedAppends.get(correlationId);
    // The append was already refused, and this is one of its later parts.
    if (append === undefined) return;
    try {
      append.events.add(request.getProposedMessagesList());
    } catch (error) {
      unfinishedAppends.delete(correlationId);
      sendRefusal(append.context, error);
      return;
    }
    if (!request.getIsFinal()) return;
    unfinishedAppends.delete(correlationId);
    void writeAppend(append);
  }

  function startAppend(correlationId: string, request: BatchAppendReq): void {
    if (unfinishedAppends.has(correlationId))
      throw createInvalidArgumentError("Two unfinished appends have the same correlation id.");
    if (unfinishedAppends.size >= MAX_UNFINISHED_APPENDS) {
      const message = `A call can have at most ${MAX_UNFINISHED_APPENDS} unfinished appends.`;
      throw new CallError(grpcStatus.RESOURCE_EXHAUSTED, message);
    }
    const options = request.getOptions();
    const context: AppendContext = {
      correlationId: request.getCorrelationId() ?? new shared.UUID(),
      streamIdentifier: options?.getStreamIdentifier() ?? new shared.StreamIdentifier(),
      expectedRevision: parseExpectedRevision(options),
    };
    try {
      const events = new AppendEventList(parseWritableStreamName(options?.getStreamIdentifier()));
      const deadline = options?.getDeadline()?.toDate().getTime() ?? Number.POSITIVE_INFINITY;
      unfinishedAppends.set(correlationId, { context, deadline, events });
    } catch (error) {
      sendRefusal(context, error);
    }
  }

  function sendRefusal(context: AppendContext, error: unknown): void {
    send(createRefusalResponse(context, toCallError(error, store.printLine)));
  }

  async function writeAppend({ context, deadline, events: eventList }: UnfinishedAppend): Promise<void> {
    const { stream, events, storedBytes } = eventList;
    const request = { kind: "append", stream, expectedRevision: context.expectedRevision, events } as const;
    pendingWrites += 1;
    try {
      const writeOutcome = await store.submit(request, storedBytes, deadline);
      // During a shutdown, an append gets no response. The whole call ends with an error.
      if (writeOutcome.outcome !== "closing") send(createOutcomeResponse(context, writeOutcome));
    } catch {
      // The disk failed. The server logs the cause once for all queued appends.
      endWithError(createUnavailableError("The log cannot write to its disk."));
    } finally {
      pendingWrites -= 1;
      endIfComplete();
    }
  }

  function send(response: BatchAppendResp): void {
    if (call.cancelled || call.writableEnded) return;
    call.write(response);
    // If the client does not read the responses, the log stops reading the client's requests.
    if (call.writableLength > MAX_QUEUED_MESSAGES) call.pause();
  }

  function endWithError(error: unknown): void {
    if (call.writableEnded) return;
    unfinishedAppends.clear();
    call.emit("error", toCallError(error, store.printLine));
  }

  function endIfComplete(): void {
    if (isHalfClosed && pendingWrites === 0 && !call.writableEnded) call.end();
  }
}

function parseExpectedRevision(options: BatchAppendReq.Options | undefined): number {
  if (options === undefined) return 0;
  return options.hasStreamPosition() ? parseUint64(options.getStreamPosition()) : parseExpectedState(options);
}

/** Responses of BatchAppend. A response can contain an error, so a refused append does not end the call. */

interface AppendContext {
  readonly correlationId: UUID;
  readonly streamIdentifier: StreamIdentifier;
  readonly expectedRevision: number;
}

function createOutcomeResponse(context: AppendContext, writeOutcome: WriteOutcome): BatchAppendResp {
  switch (writeOutcome.outcome) {
    case "written":
      return createSuccessResponse(context, writeOutcome.revision, writeOutcome.position);
    case "wrong-revision": {
      const details = encodeWrongVersion(context.expectedRevision, writeOutcome.currentRevision);
      return createErrorResponse(context, grpcStatus.ALREADY_EXISTS, "WrongExpectedVersion", details);
    }
    case "deleted": {
      const details = new shared.StreamDeleted().setStreamIdentifier(context.streamIdentifier);
      return createErrorResponse(context, grpcStatus.NOT_FOUND, "StreamDeleted", details);
    }
    default:
      // The client can retry the append: its deadline passed, or the queue or the disk is full. After a different error,
      // the client would close its connection.
      return createErrorResponse(context, grpcStatus.DEADLINE_EXCEEDED, "Timeout", new shared.Timeout());
  }
}

function createRefusalResponse(context: AppendContext, error: CallError): BatchAppendResp {
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
  revision: number | bigint,
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
