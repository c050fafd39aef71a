import protobuf from "google-protobuf";
import { streams } from "./pb.ts";

const { BinaryWriter } = protobuf;

/**
 * Stored form of an event. The stream name and the type come first, because filters need them. The rest is the event's
 * response to Streams.Read in wire format:
 *
 *     <stream length, 2 bytes> <type length, 2 bytes> <stream> <type> <ReadResp>
 *
 * A read sends the stored response unchanged, without decoding the event.
 */

export interface ProposedEvent {
  /** In lower case. */
  readonly id: string;
  readonly type: string;
  readonly contentType: string;
  readonly data: Uint8Array;
  readonly metadata: Uint8Array;
}

interface EventPlacement {
  readonly stream: string;
  readonly revision: number | bigint;
  readonly position: number;
  /** Milliseconds since 1970. */
  readonly createdAt: number;
}

export interface LogEvent {
  readonly position: number;
  readonly record: Buffer;
}

export const TOMBSTONE_EVENT_TYPE = "$streamDeleted";

/** Times are stored as .NET ticks of 100 ns. */
const TICKS_PER_MILLISECOND = 10_000;

const MAX_FIXED_BYTES = 256;
const MIN_POSITION_STEP = 64;

export function getMaxRecordBytes(stream: string, event: ProposedEvent): number {
  const textBytes = 2 * (stream.length + event.type.length) * 3 + event.contentType.length * 3;
  return MAX_FIXED_BYTES + textBytes + event.data.length + event.metadata.length;
}

/**
 * Computes the position of an event from the position of the previous event. Positions grow with the size of each event,
 * like offsets in a file. Read models store positions, so this rule must never change.
 */
export function computePosition(previousPosition: number, stream: string, event: ProposedEvent): number {
  const textLength = stream.length + event.type.length;
  return previousPosition + MIN_POSITION_STEP + textLength + event.data.length + event.metadata.length;
}

export function encodeRecord(event: ProposedEvent, placement: EventPlacement): Buffer {
  const header = Buffer.alloc(4);
  const [stream, type] = [Buffer.from(placement.stream), Buffer.from(event.type)];
  header.writeUInt16BE(stream.length, 0);
  header.writeUInt16BE(type.length, 2);
  return Buffer.concat([header, stream, type, encodeReadResponse(event, placement)]);
}

/**
 * Encodes a `ReadResp` with the field numbers of EventStoreDB's streams.proto. The generated classes would take twice as
 * long.
 */
function encodeReadResponse(event: ProposedEvent, placement: EventPlacement): Uint8Array {
  const { stream, revision, position, createdAt } = placement;
  const writer = new BinaryWriter();
  writer.writeMessage(1, event, () => {
    writer.writeMessage(1, event, () => {
      writer.writeMessage(1, event.id, (id) => writer.writeString(2, id));
      writer.writeMessage(2, stream, (name) => writer.writeString(3, name));
      writer.writeUint64String(3, String(revision));
      for (const field of [4, 5]) writer.writeUint64(field, position);
      // The client expects .NET ticks of 100 ns and divides them by 10,000.
      const properties = { type: event.type, created: `${createdAt}0000`, "content-type": event.contentType };
      for (const property of Object.entries(properties))
        writer.writeMessage(6, property, ([name, value]) => {
          writer.writeString(1, name);
          writer.writeString(2, value);
        });
      writer.writeBytes(7, event.metadata);
      writer.writeBytes(8, event.data);
    });
    writer.writeUint64(3, position);
  });
  return writer.getResultBuffer();
}

export function readStreamName(record: Buffer): string {
  return record.toString("utf8", 4, 4 + record.readUInt16BE(0));
}

export function readEventType(record: Buffer): string {
  const start = 4 + record.readUInt16BE(0);
  return record.toString("utf8", start, start + record.readUInt16BE(2));
}

/** Returns milliseconds since 1970. */
export function readCreationTime(record: Buffer): number {
  const event = streams.ReadResp.deserializeBinary(readWireBytes(record)).getEvent()?.getEvent();
  return Number(event?.getMetadataMap().get("created") ?? 0) / TICKS_PER_MILLISECOND;
}

export function readWireBytes(record: Buffer): Buffer {
  return record.subarray(4 + record.readUInt16BE(0) + record.readUInt16BE(2));
}

/** Restores the event that the client sent. */
export function decodeProposedEvent(record: Buffer): ProposedEvent {
  const event = streams.ReadResp.deserializeBinary(readWireBytes(record)).getEvent()?.getEvent();
  if (event === undefined) throw new Error("The record contains no event.");
  return {
    id: event.getId()?.getString() ?? "",
    type: readEventType(record),
    contentType: event.getMetadataMap().get("content-type") ?? "",
    data: event.getData_asU8(),
    metadata: event.getCustomMetadata_asU8(),
  };
}
