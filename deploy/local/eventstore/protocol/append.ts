import type {
  AppendReq,
  AppendResp,
  DeleteReq,
  DeleteResp,
  TombstoneReq,
  TombstoneResp,
} from "@eventstore/db-client/generated/streams_pb.js";
import type { Deadline, ServerReadableStream, sendUnaryData } from "@grpc/grpc-js";
import { ANY, NO_STREAM, STREAM_EXISTS } from "../model/append-rules.ts";
import { shared, streams } from "../model/pb.ts";
import { getOriginalStream } from "../model/stream-metadata.ts";
import type { WriteRequest, WriteResult } from "../store/staged-group.ts";
import type { Store } from "../store/store.ts";
import {
  createInvalidArgumentError,
  createStreamDeletedError,
  createTimeoutError,
  createUnavailableError,
  createWrongVersionError,
} from "./errors.ts";
import { AppendEventList, parseExpectedState, parseUint64, parseWritableStreamName } from "./request-parts.ts";

/**
 * Streams.Append, which performs one append per call. The services use this method for large and repeated appends.
 */

interface AppendRequest {
  readonly expectedRevision: number;
  readonly events: AppendEventList;
}

/** Calls either `answer` or `fail`, exactly once. */
export function serveAppend(
  store: Store,
  call: ServerReadableStream<AppendReq, AppendResp>,
  respond: sendUnaryData<AppendResp>,
  fail: (error: unknown) => void,
): void {
  let append: AppendRequest | undefined;
  let hasFailed = false;
  const runUnlessFailed = (run: () => void) => {
    if (hasFailed) return;
    try {
      run();
    } catch (error) {
      hasFailed = true;
      fail(error);
    }
  };
  call.on("data", (message: AppendReq) =>
    runUnlessFailed(() => {
      const options = message.getOptions();
      if (options !== undefined) append = startAppend(options);
      else addEvent(append, message);
    }),
  );
  call.on("end", () =>
    runUnlessFailed(() => {
      if (append === undefined)
        throw createInvalidArgumentError("The first message of an append must contain its options.");
      writeAppend(store, append, call.getDeadline()).then((response) => respond(null, response), fail);
    }),
  );
}

function startAppend(options: AppendReq.Options): AppendRequest {
  return {
    events: new AppendEventList(parseWritableStreamName(options.getStreamIdentifier())),
    expectedRevision: options.hasRevision() ? parseUint64(options.getRevision()) : parseExpectedState(options),
  };
}

function addEvent(append: AppendRequest | undefined, message: AppendReq): void {
  const proposedMessage = message.getProposedMessage();
  if (append === undefined || proposedMessage === undefined) {
    throw createInvalidArgumentError("The options of an append must be sent before its events.");
  }
  append.events.add([proposedMessage]);
}

async function writeAppend(store: Store, append: AppendRequest, deadline: Deadline): Promise<AppendResp> {
  const { expectedRevision } = append;
  const { stream, events, storedBytes } = append.events;
  const request = { kind: "append", stream, expectedRevision, events } as const;
  const writeResult = await writeOrThrow(store, request, storedBytes, deadline);
  switch (writeResult.outcome) {
    case "deleted":
      throw createStreamDeletedError(stream);
    case "wrong-revision":
      return new streams.AppendResp().setWrongExpectedVersion(
        encodeWrongVersion(expectedRevision, writeResult.currentRevision),
      );
    case "written":
      return new streams.AppendResp().setSuccess(encodeSuccess(writeResult.revision, writeResult.position));
  }
}

function encodeSuccess(revision: number | bigint, position: number | undefined): AppendResp.Success {
  const message = new streams.AppendResp.Success();
  if (revision < 0) message.setNoStream(new shared.Empty());
  else message.setCurrentRevision(String(revision));
  if (position === undefined) return message.setNoPosition(new shared.Empty());
  const positionMessage = new streams.AppendResp.Position();
  return message.setPosition(positionMessage.setCommitPosition(String(position)).setPreparePosition(String(position)));
}

function encodeWrongVersion(expectedRevision: number, currentRevision: number): AppendResp.WrongExpectedVersion {
  const message = new streams.AppendResp.WrongExpectedVersion();
  if (currentRevision < 0) message.setCurrentNoStream(new shared.Empty());
  else message.setCurrentRevision(String(currentRevision));
  if (expectedRevision === ANY) return message.setExpectedAny(new shared.Empty());
  if (expectedRevision === NO_STREAM) return message.setExpectedNoStream(new shared.Empty());
  if (expectedRevision === STREAM_EXISTS) return message.setExpectedStreamExists(new shared.Empty());
  return message.setExpectedRevision(String(expectedRevision));
}

async function writeOrThrow(
  store: Store,
  request: WriteRequest,
  storedBytes: number,
  deadline: Deadline,
): Promise<WriteResult> {
  const writeOutcome = await store.submit(request, storedBytes, Number(deadline)).catch(() => {
    throw createUnavailableError("The log cannot write to its disk.");
  });
  switch (writeOutcome.outcome) {
    case "expired":
      throw createTimeoutError("The deadline passed before the write started. Nothing was written.");
    case "overloaded":
      throw createTimeoutError("The log is overloaded. Nothing was written.");
    case "closing":
      throw createUnavailableError("The log is shutting down.");
    case "disk-full":
      throw createTimeoutError("The disk of the log is full. Nothing was written.");
    default:
      return writeOutcome;
  }
}

/** Streams.Delete and Streams.Tombstone. A deleted stream accepts later appends; a tombstoned stream does not. */

/** Hides the events of a stream from reads of the stream. The events stay in the log. */
export async function softDeleteStream(store: Store, request: DeleteReq, deadline: Deadline): Promise<DeleteResp> {
  const position = await deleteStream(store, "soft-delete", request.getOptions(), deadline);
  const message = new streams.DeleteResp.Position();
  return new streams.DeleteResp().setPosition(message.setCommitPosition(position).setPreparePosition(position));
}

/** Deletes a stream permanently. Later reads and appends fail. */
export async function tombstoneStream(store: Store, request: TombstoneReq, deadline: Deadline): Promise<TombstoneResp> {
  const position = await deleteStream(store, "tombstone", request.getOptions(), deadline);
  const message = new streams.TombstoneResp.Position();
  return new streams.TombstoneResp().setPosition(message.setCommitPosition(position).setPreparePosition(position));
}

async function deleteStream(
  store: Store,
  kind: "soft-delete" | "tombstone",
  options: DeleteReq.Options | TombstoneReq.Options | undefined,
  deadline: Deadline,
): Promise<string> {
  if (options === undefined) throw createInvalidArgumentError("A request to delete a stream must contain options.");
  const stream = parseWritableStreamName(options.getStreamIdentifier());
  if (getOriginalStream(stream) !== undefined) throw createInvalidArgumentError("A metadata stream cannot be deleted.");
  const expectedRevision = options.hasRevision() ? parseUint64(options.getRevision()) : parseExpectedState(options);
  const writeResult = await writeOrThrow(store, { kind, stream, expectedRevision, events: [] }, 0, deadline);
  switch (writeResult.outcome) {
    case "deleted":
      throw createStreamDeletedError(stream);
    case "wrong-revision":
      throw createWrongVersionError(stream, expectedRevision, writeResult.currentRevision);
    case "written":
      return String(writeResult.position);
  }
}
