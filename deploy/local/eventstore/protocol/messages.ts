/**
 * Encodes the messages of Streams.Read. Events with text ids are not encoded here, because they are stored in encoded
 * form.
 */
import type { ReadResp } from "@eventstore/db-client/generated/streams_pb.js";
import { shared, streams } from "../model/pb.ts";

/** Encodes the confirmation at the start of a subscription. */
export function encodeConfirmation(subscriptionId: string): Uint8Array {
  const message = new streams.ReadResp.SubscriptionConfirmation().setSubscriptionId(subscriptionId);
  return new streams.ReadResp().setConfirmation(message).serializeBinary();
}

/** Encodes a checkpoint: the position that a filtered subscription has reached. */
export function encodeCheckpoint(position: number): Uint8Array {
  const text = String(position);
  const message = new streams.ReadResp.Checkpoint().setCommitPosition(text).setPreparePosition(text);
  return new streams.ReadResp().setCheckpoint(message).serializeBinary();
}

/** Encodes the signal that a subscription has caught up. All later events are live. */
export function encodeCaughtUp(): Uint8Array {
  return new streams.ReadResp().setCaughtUp(new streams.ReadResp.CaughtUp()).serializeBinary();
}

/** Encodes the response to a read of a stream that does not exist or is soft-deleted. */
export function encodeStreamNotFound(stream: string): Uint8Array {
  const identifier = new shared.StreamIdentifier().setStreamName(Buffer.from(stream));
  const message = new streams.ReadResp.StreamNotFound().setStreamIdentifier(identifier);
  return new streams.ReadResp().setStreamNotFound(message).serializeBinary();
}

/** Re-encodes an event for clients that request structured ids, which are two 64-bit numbers instead of a text. */
export function reencodeWithStructuredId(wireBytes: Uint8Array): Uint8Array {
  const message = streams.ReadResp.deserializeBinary(wireBytes);
  const id = message.getEvent()?.getEvent()?.getId();
  if (id !== undefined) setStructuredId(id);
  return (message satisfies ReadResp).serializeBinary();
}

function setStructuredId(id: InstanceType<typeof shared.UUID>): void {
  const hex = id.getString().replaceAll("-", "");
  const formatHalf = (start: number) => BigInt.asIntN(64, BigInt(`0x${hex.slice(start, start + 16)}`)).toString();
  const structuredId = new shared.UUID.Structured();
  id.setStructured(structuredId.setMostSignificantBits(formatHalf(0)).setLeastSignificantBits(formatHalf(16)));
}
