import { convertToCommandError, type EventStoreDBClient } from "@eventstore/db-client";
import { unpackWrongExpectedVersion } from "@eventstore/db-client/dist/streams/appendToStream/unpackError.js";
import shared from "@eventstore/db-client/generated/shared_pb.js";
import streamsGrpc from "@eventstore/db-client/generated/streams_grpc_pb.js";
import streams, {
  type AppendReq,
  type AppendResp,
  type BatchAppendReq,
} from "@eventstore/db-client/generated/streams_pb.js";
import empty from "google-protobuf/google/protobuf/empty_pb.js";
import { withTimeout } from "../runtime/timeout.ts";
import { sendSharedAppend } from "./batch-append.ts";
import { toGrpcClient } from "./grpc-client.ts";

/** An event to append. Data and metadata are bytes, which the log stores unchanged. */
export interface ProposedEvent {
  id: string;
  type: string;
  contentType: string;
  data: Uint8Array;
  metadata: Uint8Array;
}

/** Thrown if a stream's last revision is not the expected one. Nothing was appended. */
export class UnexpectedRevisionError extends Error {
  override readonly name = "UnexpectedRevisionError";
  /** The stream's last revision; -1 if the stream has no events. */
  readonly lastRevision: bigint;

  constructor(lastRevision: bigint) {
    super(`the last revision of the stream is ${lastRevision}`);
    this.lastRevision = lastRevision;
  }
}

/**
 * Appends events to a stream atomically, in a separate call. Repeating an append has no effect, because the server
 * recognizes the events by their ids and the expected revision.
 *
 * This function replaces the client's `appendToStream`, which can fail permanently. That function requests the server's
 * list of methods only once, and sends all appends in one call. If the request or the call fails, later appends fail
 * too.
 *
 * @param expectedRevision last revision of the stream; -1 for a stream without events
 * @param timeoutMs time limit, on the client and on the server
 * @returns the log position of the last event
 * @throws {UnexpectedRevisionError}
 * @throws {TimeoutError | Error} if the request fails. `toAppendError` classifies these errors
 */
export async function appendEvents(
  client: EventStoreDBClient,
  stream: string,
  expectedRevision: bigint,
  events: readonly ProposedEvent[],
  timeoutMs: number,
): Promise<bigint> {
  const options = new streams.AppendReq.Options().setStreamIdentifier(toStreamIdentifier(stream));
  if (expectedRevision < 0n) options.setNoStream(new shared.Empty());
  else options.setRevision(String(expectedRevision));
  const messages = [
    new streams.AppendReq().setOptions(options),
    ...events.map((event) =>
      new streams.AppendReq().setProposedMessage(describeEvent(new streams.AppendReq.ProposedMessage(), event)),
    ),
  ];
  const deadline = new Date(Date.now() + timeoutMs);
  // The search for the leader of a cluster precedes the call, and does not end at the call's deadline.
  const response = await withTimeout(timeoutMs, sendAppend(client, messages, deadline)).catch((error) => {
    throw convertToCommandError(error);
  });
  const conflict = response.getWrongExpectedVersion();
  if (conflict)
    throw new UnexpectedRevisionError(BigInt(conflict.hasCurrentRevision() ? conflict.getCurrentRevision() : -1));
  return BigInt(response.getSuccess()?.getPosition()?.getCommitPosition() ?? 0);
}

/**
 * Appends events as {@link appendEvents} does, but in one call with other appends. This halves the time that an append
 * costs in this process. After any error except {@link UnexpectedRevisionError}, repeat the append with
 * {@link appendEvents}: another append may have caused the error.
 *
 * @throws {UnexpectedRevisionError}
 * @throws {Error} if the outcome is unknown, or the server refuses the append
 */
export async function appendEventsInSharedCall(
  client: EventStoreDBClient,
  stream: string,
  expectedRevision: bigint,
  events: readonly ProposedEvent[],
  timeoutMs: number,
): Promise<bigint> {
  const size = events.reduce(
    (sum, { data, metadata }) => sum + data.length + metadata.length + EVENT_OVERHEAD_BYTES,
    0,
  );
  if (size > MAX_SHARED_BYTES) return appendEvents(client, stream, expectedRevision, events, timeoutMs);
  const options = new streams.BatchAppendReq.Options().setStreamIdentifier(toStreamIdentifier(stream));
  if (expectedRevision < 0n) options.setNoStream(new empty.Empty());
  else options.setStreamPosition(String(expectedRevision));
  const messages = events.map((event) => describeEvent(new streams.BatchAppendReq.ProposedMessage(), event));
  // The request has no deadline, because the server compares it with its own clock.
  const request = new streams.BatchAppendReq().setOptions(options).setProposedMessagesList(messages).setIsFinal(true);
  const expiry = new AbortController();
  const response = await withTimeout(timeoutMs, sendSharedAppend(client, request, expiry.signal)).catch((error) => {
    // A repeat by the caller, and later appends, must find the call retired.
    expiry.abort(error);
    throw error;
  });
  const success = response.getSuccess();
  if (success) return BigInt(success.getPosition()?.getCommitPosition() ?? 0);
  const refusal = response.getError();
  const conflict = refusal && unpackWrongExpectedVersion(refusal);
  if (conflict)
    throw new UnexpectedRevisionError(
      BigInt(conflict.hasCurrentStreamRevision() ? conflict.getCurrentStreamRevision() : -1),
    );
  throw new Error(`the log refused the append in a shared call: ${refusal?.getMessage()}`);
}

/** Maximum size of an append that shares a call, in bytes. A larger append has a separate call. */
const MAX_SHARED_BYTES = 1024 * 1024;

/** Estimated size of an event's id, type and encoding, in bytes. */
const EVENT_OVERHEAD_BYTES = 200;

const toStreamIdentifier = (stream: string) => new shared.StreamIdentifier().setStreamName(Buffer.from(stream));

/** Writes an event into an empty message. */
function describeEvent<Message extends AppendReq.ProposedMessage | BatchAppendReq.ProposedMessage>(
  message: Message,
  { id, type, contentType, data, metadata }: ProposedEvent,
): Message {
  message.setId(new shared.UUID().setString(id)).setData(data).setCustomMetadata(metadata);
  message.getMetadataMap().set("type", type).set("content-type", contentType);
  return message;
}

function sendAppend(client: EventStoreDBClient, messages: InstanceType<typeof streams.AppendReq>[], deadline: Date) {
  const { execute, callArguments } = toGrpcClient(client);
  return execute(
    streamsGrpc.StreamsClient,
    "append",
    (grpc) =>
      new Promise<AppendResp>((resolve, reject) => {
        const call = grpc.append(...callArguments({ requiresLeader: true }, { deadline }), (error, response) =>
          error ? reject(error) : resolve(response),
        );
        call.on("error", reject);
        for (const message of messages) call.write(message);
        call.end();
      }),
  );
}
