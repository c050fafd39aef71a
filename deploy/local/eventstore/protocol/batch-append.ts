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

export class BatchAppendSession {
  readonly #store: Store;
  readonly #call: BatchAppendCall;
  readonly #unfinishedAppends = new Map<string, UnfinishedAppend>();
  #pendingWrites = 0;
  #isHalfClosed = false;

  constructor(store: Store, call: BatchAppendCall) {
    this.#store = store;
    this.#call = call;
  }

  start(): void {
    this.#call.on("data", (request: BatchAppendReq) => this.#receive(request));
    this.#call.on("drain", () => this.#call.resume());
    this.#call.on("end", () => {
      this.#isHalfClosed = true;
      this.#endIfComplete();
    });
  }

  #receive(request: BatchAppendReq): void {
    try {
      this.#receivePart(request);
    } catch (error) {
      this.#endWithError(error);
    }
  }

  #receivePart(request: BatchAppendReq): void {
    const correlationId = parseUuid(request.getCorrelationId(), "A correlation id");
    if (request.hasOptions()) this.#startAppend(correlationId, request);
    const append = this.#unfinishedAppends.get(correlationId);
    // The append was already refused, and this is one of its later parts.
    if (append === undefined) return;
    try {
      append.events.add(request.getProposedMessagesList());
    } catch (error) {
      this.#unfinishedAppends.delete(correlationId);
      this.#sendRefusal(append.context, error);
      return;
    }
    if (!request.getIsFinal()) return;
    this.#unfinishedAppends.delete(correlationId);
    void this.#writeAppend(append);
  }

  #startAppend(correlationId: string, request: BatchAppendReq): void {
    if (this.#unfinishedAppends.has(correlationId))
      throw createInvalidArgumentError("Two unfinished appends have the same correlation id.");
    if (this.#unfinishedAppends.size >= MAX_UNFINISHED_APPENDS) {
      throw new CallError(
        grpcStatus.RESOURCE_EXHAUSTED,
        `A call can have at most ${MAX_UNFINISHED_APPENDS} unfinished appends.`,
      );
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
      this.#unfinishedAppends.set(correlationId, { context, deadline, events });
    } catch (error) {
      this.#sendRefusal(context, error);
    }
  }

  #sendRefusal(context: AppendContext, error: unknown): void {
    this.#send(createRefusalResponse(context, toCallError(error, this.#store.printLine)));
  }

  async #writeAppend(append: UnfinishedAppend): Promise<void> {
    const { context, deadline } = append;
    const { stream, events, storedBytes } = append.events;
    const request = { kind: "append", stream, expectedRevision: context.expectedRevision, events } as const;
    this.#pendingWrites += 1;
    try {
      const writeOutcome = await this.#store.submit(request, storedBytes, deadline);
      // During a shutdown, an append gets no response. The whole call ends with an error.
      if (writeOutcome.outcome === "closing") return;
      this.#send(createOutcomeResponse(context, writeOutcome));
    } catch {
      // The disk failed. The server logs the cause once for all queued appends.
      this.#endWithError(createUnavailableError("The log cannot write to its disk."));
    } finally {
      this.#pendingWrites -= 1;
      this.#endIfComplete();
    }
  }

  #send(response: BatchAppendResp): void {
    if (this.#call.cancelled || this.#call.writableEnded) return;
    this.#call.write(response);
    // If the client does not read the responses, the log stops reading the client's requests.
    if (this.#call.writableLength > MAX_QUEUED_MESSAGES) this.#call.pause();
  }

  #endWithError(error: unknown): void {
    if (this.#call.writableEnded) return;
    this.#unfinishedAppends.clear();
    this.#call.emit("error", toCallError(error, this.#store.printLine));
  }

  #endIfComplete(): void {
    if (this.#isHalfClosed && this.#pendingWrites === 0 && !this.#call.writableEnded) this.#call.end();
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
