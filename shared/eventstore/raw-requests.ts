/**
 * Reads and appends events as bytes. The client's own operations parse JSON and write it again, which can change the
 * bytes of numbers, spaces and escapes.
 */
import { convertToCommandError, type EventStoreDBClient } from "@eventstore/db-client";
import shared from "@eventstore/db-client/generated/shared_pb.js";
import streamsGrpc from "@eventstore/db-client/generated/streams_grpc_pb.js";
import type { AppendResp, ReadResp } from "@eventstore/db-client/generated/streams_pb.js";
import streams from "@eventstore/db-client/generated/streams_pb.js";
import type { ClientReadableStream } from "@grpc/grpc-js";
import { onAbort } from "../runtime/abort.ts";
import { TimeoutError, withTimeout } from "../runtime/timeout.ts";
import { LogUnavailableError, toLogError } from "./log.ts";
import { createSilenceWatchdog } from "./silence-watchdog.ts";

/** An event as the event log stores it: data and metadata are bytes. */
export interface StoredEvent {
  stream: string;
  /** Revision in the stream, from 0. A tombstone has a revision of 2³¹ - 1 or 2⁶³ - 1. */
  revision: bigint;
  id: string;
  type: string;
  contentType: string;
  data: Uint8Array;
  metadata: Uint8Array;
  position: StoredPosition;
}

export interface StoredPosition {
  commit: bigint;
  prepare: bigint;
}

/** Expected revision of a stream without events. */
export const NO_EVENTS = -1n;

/** Thrown if a stream's last revision is not the expected one. Nothing was appended. */
export class UnexpectedRevisionError extends Error {
  override readonly name = "UnexpectedRevisionError";
  /** The stream's last revision; `NO_EVENTS` if the stream has no events. */
  readonly lastRevision: bigint;

  constructor(lastRevision: bigint) {
    super(`the last revision of the stream is ${lastRevision}`);
    this.lastRevision = lastRevision;
  }
}

const APPEND_TIMEOUT_MS = 15_000;

/**
 * Members with which the client sends its own requests. They are protected. With them, the requests of this module use
 * the client's connection with its discovery, TLS and credentials.
 */
interface RequestSender {
  execute: EventStoreDBClient["execute"];
  callArguments: EventStoreDBClient["callArguments"];
  GRPCStreamCreator: EventStoreDBClient["GRPCStreamCreator"];
}

/** The only access to protected members of the client. */
const toSender = (client: EventStoreDBClient) => client as unknown as RequestSender;

function openRead(client: EventStoreDBClient, request: InstanceType<typeof streams.ReadReq>) {
  const { GRPCStreamCreator, callArguments } = toSender(client);
  const grpcArguments = callArguments({ requiresLeader: true }, { deadline: Number.POSITIVE_INFINITY });
  return GRPCStreamCreator(streamsGrpc.StreamsClient, "readAll", (grpc) => grpc.read(request, ...grpcArguments))();
}

function sendAppend(client: EventStoreDBClient, messages: InstanceType<typeof streams.AppendReq>[]) {
  const { execute, callArguments } = toSender(client);
  return execute(
    streamsGrpc.StreamsClient,
    "appendToStream",
    (grpc) =>
      new Promise<AppendResp>((resolve, reject) => {
        const grpcArguments = callArguments({ requiresLeader: true, deadline: APPEND_TIMEOUT_MS });
        const call = grpc.append(...grpcArguments, (error, response) =>
          error ? reject(convertToCommandError(error)) : resolve(response),
        );
        call.on("error", reject);
        for (const message of messages) call.write(message);
        call.end();
      }),
  );
}

/**
 * Reads the events of all streams in log order, up to the end of the log.
 *
 * @param startPosition position of the first event; undefined for the start of the log
 * @throws {LogUnavailableError} if the log is unavailable or stops sending events, or the signal aborts
 */
export async function* readAllStreams(
  client: EventStoreDBClient,
  startPosition: StoredPosition | undefined,
  signal: AbortSignal,
): AsyncGenerator<StoredEvent, void> {
  let responses: ClientReadableStream<ReadResp> | undefined;
  let isSilent = false;
  const watchdog = createSilenceWatchdog(() => {
    isSilent = true;
    responses?.cancel();
  });
  const removeListener = onAbort(signal, () => responses?.cancel());
  try {
    responses = await withTimeout(APPEND_TIMEOUT_MS, openRead(client, createReadRequest(startPosition)));
    // A canceled read emits an error even if nobody iterates over the read any more.
    responses.on("error", ignoreCancellation);
    if (signal.aborted) responses.cancel();
    watchdog.restart();
    for await (const response of responses as AsyncIterable<ReadResp>) {
      const event = toStoredEvent(response);
      if (!event) continue;
      watchdog.pause();
      yield event;
      watchdog.restart();
    }
  } catch (error) {
    if (isSilent) throw new LogUnavailableError("the event log stopped sending events", { cause: error });
    throw toLogError(error instanceof TimeoutError ? error : convertToCommandError(error as Error));
  } finally {
    watchdog.end();
    removeListener();
    responses?.cancel();
  }
}

function ignoreCancellation(): void {}

function createReadRequest(from: StoredPosition | undefined) {
  const allOptions = new streams.ReadReq.Options.AllOptions();
  if (from) {
    const position = new streams.ReadReq.Options.Position();
    allOptions.setPosition(position.setCommitPosition(String(from.commit)).setPreparePosition(String(from.prepare)));
  } else allOptions.setStart(new shared.Empty());
  const options = new streams.ReadReq.Options()
    .setAll(allOptions)
    .setReadDirection(streams.ReadReq.Options.ReadDirection.FORWARDS)
    .setResolveLinks(false)
    .setCount(String(Number.MAX_SAFE_INTEGER))
    .setNoFilter(new shared.Empty())
    .setUuidOption(new streams.ReadReq.Options.UUIDOption().setString(new shared.Empty()));
  return new streams.ReadReq().setOptions(options);
}

/** Converts a response to an event. Returns undefined for responses without an event. */
function toStoredEvent(response: ReadResp): StoredEvent | undefined {
  const event = response.getEvent()?.getEvent();
  if (!event) return undefined;
  const properties = event.getMetadataMap();
  return {
    stream: Buffer.from(event.getStreamIdentifier()?.getStreamName_asU8() ?? []).toString(),
    revision: BigInt(event.getStreamRevision()),
    id: event.getId()?.getString() ?? "",
    type: properties.get("type") ?? "",
    contentType: properties.get("content-type") ?? "",
    data: event.getData_asU8(),
    metadata: event.getCustomMetadata_asU8(),
    position: { commit: BigInt(event.getCommitPosition()), prepare: BigInt(event.getPreparePosition()) },
  };
}

export type ProposedEvent = Pick<StoredEvent, "id" | "type" | "contentType" | "data" | "metadata">;

/**
 * Appends events to a stream atomically. Repeating an append has no effect, because the server recognises the events by
 * their ids and the expected revision.
 *
 * @param expectedRevision last revision of the stream; `NO_EVENTS` for a stream without events
 * @throws {UnexpectedRevisionError}
 * @throws {LogUnavailableError} if the log is unavailable; the outcome is then unknown
 * @throws the client's error if the log refuses the events
 */
export async function appendBytes(
  client: EventStoreDBClient,
  stream: string,
  expectedRevision: bigint,
  events: readonly ProposedEvent[],
): Promise<void> {
  const options = new streams.AppendReq.Options().setStreamIdentifier(
    new shared.StreamIdentifier().setStreamName(Buffer.from(stream)),
  );
  if (expectedRevision === NO_EVENTS) options.setNoStream(new shared.Empty());
  else options.setRevision(String(expectedRevision));
  const messages = [new streams.AppendReq().setOptions(options), ...events.map(toAppendMessage)];
  const pendingResponse = sendAppend(client, messages);
  const response = await withTimeout(APPEND_TIMEOUT_MS, pendingResponse).catch((error: unknown) => {
    throw toLogError(error);
  });
  const conflict = response.getWrongExpectedVersion();
  if (conflict)
    throw new UnexpectedRevisionError(
      conflict.hasCurrentRevision() ? BigInt(conflict.getCurrentRevision()) : NO_EVENTS,
    );
}

function toAppendMessage({ id, type, contentType, data, metadata }: ProposedEvent) {
  const message = new streams.AppendReq.ProposedMessage()
    .setId(new shared.UUID().setString(id))
    .setData(data)
    .setCustomMetadata(metadata);
  message.getMetadataMap().set("type", type).set("content-type", contentType);
  return new streams.AppendReq().setProposedMessage(message);
}
