import { streams } from "./pb.ts";

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

const TAGS = {
  respEvent: 0x0a,
  eventRecord: 0x0a,
  eventCommit: 0x18,
  id: 0x0a,
  idString: 0x12,
  stream: 0x12,
  streamName: 0x1a,
  revision: 0x18,
  prepare: 0x20,
  commit: 0x28,
  metadata: 0x32,
  mapKey: 0x0a,
  mapValue: 0x12,
  customMetadata: 0x3a,
  data: 0x42,
} as const;

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
export function computePosition(
  previousPosition: number,
  stream: string,
  event: Pick<ProposedEvent, "type" | "data" | "metadata">,
): number {
  const textLength = stream.length + event.type.length;
  return previousPosition + MIN_POSITION_STEP + textLength + event.data.length + event.metadata.length;
}

export function encodeRecord(event: ProposedEvent, placement: EventPlacement): Buffer {
  const writer = new BackwardWriter(getMaxRecordBytes(placement.stream, event));
  writeReadResponse(writer, event, placement);
  const typeLength = writer.writeText(event.type);
  const streamLength = writer.writeText(placement.stream);
  writer.writeUint16(typeLength);
  writer.writeUint16(streamLength);
  return writer.toBuffer();
}

function writeReadResponse(writer: BackwardWriter, event: ProposedEvent, placement: EventPlacement): void {
  const end = writer.freeBytes;
  writer.writeVarint(placement.position);
  writer.writeByte(TAGS.eventCommit);
  const recordedEnd = writer.freeBytes;
  writeRecordedEvent(writer, event, placement);
  writer.completeField(TAGS.eventRecord, recordedEnd);
  writer.completeField(TAGS.respEvent, end);
}

function writeRecordedEvent(writer: BackwardWriter, event: ProposedEvent, placement: EventPlacement): void {
  if (event.data.length > 0) writeBytesField(writer, TAGS.data, event.data);
  if (event.metadata.length > 0) writeBytesField(writer, TAGS.customMetadata, event.metadata);
  writeMapEntry(writer, "content-type", event.contentType);
  // The client expects .NET ticks of 100 ns and divides them by 10,000.
  writeMapEntry(writer, "created", `${placement.createdAt}0000`);
  writeMapEntry(writer, "type", event.type);
  writer.writeVarint(placement.position);
  writer.writeByte(TAGS.commit);
  writer.writeVarint(placement.position);
  writer.writeByte(TAGS.prepare);
  writer.writeVarint(placement.revision);
  writer.writeByte(TAGS.revision);
  writeNestedTextField(writer, TAGS.stream, TAGS.streamName, placement.stream);
  writeNestedTextField(writer, TAGS.id, TAGS.idString, event.id);
}

function writeBytesField(writer: BackwardWriter, tag: number, bytes: Uint8Array): void {
  const end = writer.freeBytes;
  writer.writeBytes(bytes);
  writer.completeField(tag, end);
}

function writeTextField(writer: BackwardWriter, tag: number, text: string): void {
  const end = writer.freeBytes;
  writer.writeText(text);
  writer.completeField(tag, end);
}

function writeNestedTextField(writer: BackwardWriter, outerTag: number, innerTag: number, text: string): void {
  const end = writer.freeBytes;
  writeTextField(writer, innerTag, text);
  writer.completeField(outerTag, end);
}

function writeMapEntry(writer: BackwardWriter, key: string, value: string): void {
  const end = writer.freeBytes;
  writeTextField(writer, TAGS.mapValue, value);
  writeTextField(writer, TAGS.mapKey, key);
  writer.completeField(TAGS.metadata, end);
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

/**
 * Writes protobuf messages from the end of a buffer to its start.
 *
 * In protobuf, the length of a nested message precedes the message. With backward writing, the message is written
 * first, so its length is known. Nested messages therefore need no second pass and no copy.
 */
class BackwardWriter {
  readonly #buffer: Buffer;
  #start: number;

  /** @param capacity in bytes; the messages must fit */
  constructor(capacity: number) {
    this.#buffer = Buffer.allocUnsafe(capacity);
    this.#start = capacity;
  }

  get freeBytes(): number {
    return this.#start;
  }

  toBuffer(): Buffer {
    return this.#buffer.subarray(this.#start);
  }

  writeByte(value: number): void {
    this.#start -= 1;
    this.#buffer[this.#start] = value;
  }

  writeUint16(value: number): void {
    this.#start -= 2;
    this.#buffer.writeUInt16BE(value, this.#start);
  }

  writeBytes(bytes: Uint8Array): void {
    this.#start -= bytes.length;
    this.#buffer.set(bytes, this.#start);
  }

  /** Returns the number of bytes written. */
  writeText(value: string): number {
    const length = Buffer.byteLength(value);
    this.#start -= length;
    this.#buffer.write(value, this.#start, "utf8");
    return length;
  }

  writeVarint(value: number | bigint): void {
    if (typeof value === "bigint") this.#writeBigintVarint(value);
    else this.#writeNumberVarint(value);
  }

  #writeNumberVarint(value: number): void {
    let length = 1;
    for (let bound = 128; value >= bound; bound *= 128) length += 1;
    this.#start -= length;
    let remainder = value;
    let index = this.#start;
    while (remainder > 127) {
      this.#buffer[index] = (remainder % 128) | 128;
      remainder = Math.floor(remainder / 128);
      index += 1;
    }
    this.#buffer[index] = remainder;
  }

  #writeBigintVarint(value: bigint): void {
    const bytes: number[] = [];
    let remainder = value;
    while (remainder > 127n) {
      bytes.push(Number(remainder & 127n) | 128);
      remainder >>= 7n;
    }
    bytes.push(Number(remainder));
    this.writeBytes(Uint8Array.from(bytes));
  }

  /**
   * Completes a protobuf field by writing the length and the tag before its content.
   *
   * @param end value of `freeBytes` before the content was written
   */
  completeField(tag: number, end: number): void {
    this.writeVarint(end - this.#start);
    this.writeByte(tag);
  }
}
