import { convertToCommandError, type EventStoreDBClient } from "@eventstore/db-client";
import shared from "@eventstore/db-client/generated/shared_pb.js";
import streamsGrpc from "@eventstore/db-client/generated/streams_grpc_pb.js";
import streams, { type AppendResp } from "@eventstore/db-client/generated/streams_pb.js";
import { withTimeout } from "../runtime/timeout.ts";
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
 * Appends events to a stream atomically. Repeating an append has no effect, because the server recognises the events by
 * their ids and the expected revision.
 *
 * Each append is a call of its own. The client's `appendToStream` depends on a list of the server's methods that the
 * client requests once, and on one call for the appends of all clients. If one of them fails, later appends fail.
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
  const options = new streams.AppendReq.Options().setStreamIdentifier(
    new shared.StreamIdentifier().setStreamName(Buffer.from(stream)),
  );
  if (expectedRevision < 0n) options.setNoStream(new shared.Empty());
  else options.setRevision(String(expectedRevision));
  const messages = [new streams.AppendReq().setOptions(options), ...events.map(toMessage)];
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

function toMessage({ id, type, contentType, data, metadata }: ProposedEvent) {
  const message = new streams.AppendReq.ProposedMessage()
    .setId(new shared.UUID().setString(id))
    .setData(data)
    .setCustomMetadata(metadata);
  message.getMetadataMap().set("type", type).set("content-type", contentType);
  return new streams.AppendReq().setProposedMessage(message);
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
