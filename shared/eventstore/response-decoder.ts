import { StreamsService } from "@eventstore/db-client/generated/streams_grpc_pb.js";
import streams, { type ReadReq, type ReadResp } from "@eventstore/db-client/generated/streams_pb.js";
import type { CallOptions, Client, Metadata } from "@grpc/grpc-js";

/** gRPC client of the service `Streams`. */
export interface StreamsClient extends Client {
  read(request: ReadReq, metadata: Metadata, options: CallOptions): unknown;
}

/** Replaces the generated decoder of a client's reads, which takes several times as long. */
export function accelerateReads(client: StreamsClient): void {
  const { path, requestSerialize } = StreamsService.read;
  client.read = (request, metadata, options) =>
    client.makeServerStreamRequest(path, requestSerialize, decodeReadResponse, request, metadata, options);
}

/** Decodes a response of the method `Read`. The generated decoder handles what {@link decodeEvent} does not. */
function decodeReadResponse(bytes: Buffer): EventResponse | ReadResp {
  return decodeEvent(bytes) ?? streams.ReadResp.deserializeBinary(new Uint8Array(bytes));
}

/** First byte of a field: its number in `streams.proto` or `shared.proto`, and its wire type. */
const numberField = (fieldNumber: number) => fieldNumber << 3;
const bytesField = (fieldNumber: number) => (fieldNumber << 3) | 2;

const RESPONSE_EVENT = bytesField(1);
const EVENT_RECORD = bytesField(1);
const EVENT_COMMIT_POSITION = numberField(3);
const RECORD_ID = bytesField(1);
const RECORD_STREAM = bytesField(2);
const RECORD_REVISION = numberField(3);
const RECORD_PREPARE_POSITION = numberField(4);
const RECORD_COMMIT_POSITION = numberField(5);
const RECORD_METADATA_ENTRY = bytesField(6);
const RECORD_CUSTOM_METADATA = bytesField(7);
const RECORD_DATA = bytesField(8);
const UUID_STRING = bytesField(2);
const STREAM_NAME = bytesField(3);
const ENTRY_KEY = bytesField(1);
const ENTRY_VALUE = bytesField(2);

const NO_BYTES: Buffer = Buffer.alloc(0);

/** A recorded event. */
class EventRecord {
  id = "";
  streamName = NO_BYTES;
  revision = 0;
  preparePosition = 0;
  commitPosition = 0;
  customMetadata = NO_BYTES;
  data = NO_BYTES;
  /** Type, content type and time of the event. */
  readonly metadata = new Map<string, string>();

  hasId(): boolean {
    return this.id !== "";
  }
  getId() {
    return this;
  }
  hasStructured(): boolean {
    return false;
  }
  getString(): string {
    return this.id;
  }
  hasStreamIdentifier(): boolean {
    return this.streamName !== NO_BYTES;
  }
  getStreamIdentifier() {
    return this;
  }
  getStreamName(): Buffer {
    return this.streamName;
  }
  getStreamRevision(): number {
    return this.revision;
  }
  getPreparePosition(): number {
    return this.preparePosition;
  }
  getCommitPosition(): number {
    return this.commitPosition;
  }
  getMetadataMap(): Map<string, string> {
    return this.metadata;
  }
  getCustomMetadata_asU8(): Buffer {
    return this.customMetadata;
  }
  getData(): Buffer {
    return this.data;
  }
  getData_asU8(): Buffer {
    return this.data;
  }
}

/** Event of a response: its record, and its position in the log. */
class ResponseEvent {
  readonly record = new EventRecord();
  commitPosition: number | undefined;

  hasEvent(): boolean {
    return true;
  }
  getEvent(): EventRecord {
    return this.record;
  }
  hasLink(): boolean {
    return false;
  }
  hasCommitPosition(): boolean {
    return this.commitPosition !== undefined;
  }
  getCommitPosition(): number | undefined {
    return this.commitPosition;
  }
}

interface EventResponse {
  hasEvent(): boolean;
  getEvent(): ResponseEvent;
}

/**
 * Decodes a response with an event, which is a message of Protocol Buffers, into an object with the methods that
 * `@eventstore/db-client` and `clinic log copy` call.
 *
 * @returns undefined for every other message, for example one with a link, an unknown field, or a number of 2^49 or more
 */
export function decodeEvent(bytes: Buffer): EventResponse | undefined {
  const reader = new FieldReader(bytes);
  if (reader.readNumber() !== RESPONSE_EVENT || reader.readEnd() !== bytes.length) return undefined;
  const event = new ResponseEvent();
  while (reader.offset < bytes.length) {
    const field = reader.readNumber();
    if (field === EVENT_RECORD && !event.record.hasId()) decodeRecord(reader, event.record);
    else if (field === EVENT_COMMIT_POSITION) event.commitPosition = reader.readNumber();
    else return undefined;
  }
  const isComplete = event.record.hasId() && event.record.hasStreamIdentifier();
  if (reader.isUnexpected || !isComplete) return undefined;
  return { hasEvent: () => true, getEvent: () => event };
}

function decodeRecord(reader: FieldReader, record: EventRecord): void {
  const end = reader.readEnd();
  while (reader.offset < end) {
    switch (reader.readNumber()) {
      case RECORD_ID:
        record.id = reader.toText(reader.readMember(UUID_STRING));
        break;
      case RECORD_STREAM:
        record.streamName = reader.readMember(STREAM_NAME);
        break;
      case RECORD_REVISION:
        record.revision = reader.readNumber();
        break;
      case RECORD_PREPARE_POSITION:
        record.preparePosition = reader.readNumber();
        break;
      case RECORD_COMMIT_POSITION:
        record.commitPosition = reader.readNumber();
        break;
      case RECORD_METADATA_ENTRY:
        decodeEntry(reader, record.metadata);
        break;
      case RECORD_CUSTOM_METADATA:
        record.customMetadata = reader.readBytes();
        break;
      case RECORD_DATA:
        record.data = reader.readBytes();
        break;
      default:
        reader.stop();
    }
  }
  reader.expectEnd(end);
}

function decodeEntry(reader: FieldReader, entries: Map<string, string>): void {
  const end = reader.readEnd();
  reader.expect(ENTRY_KEY);
  const key = reader.toText(reader.readBytes());
  reader.expect(ENTRY_VALUE);
  entries.set(key, reader.toText(reader.readBytes()));
  reader.expectEnd(end);
}

/** Reads the fields of a message in order. Stops at the end of the bytes if the message has an unexpected form. */
class FieldReader {
  offset = 0;
  isUnexpected = false;
  readonly #bytes: Buffer;

  constructor(bytes: Buffer) {
    this.#bytes = bytes;
  }

  stop(): void {
    this.isUnexpected = true;
    this.offset = this.#bytes.length;
  }

  /** Reads a number below 2^49, which has at most seven bytes. */
  readNumber(): number {
    let value = 0;
    for (let factor = 1; factor < 2 ** 49; factor *= 0x80) {
      const byte = this.#bytes[this.offset++] ?? 0x80;
      value += (byte & 0x7f) * factor;
      if (byte < 0x80) return value;
    }
    this.stop();
    return 0;
  }

  /** Reads the length of the next bytes, and returns their end. */
  readEnd(): number {
    const length = this.readNumber();
    if (this.offset + length > this.#bytes.length) this.stop();
    return this.isUnexpected ? this.offset : this.offset + length;
  }

  readBytes(): Buffer {
    const end = this.readEnd();
    const bytes = this.#bytes.subarray(this.offset, end);
    this.offset = end;
    return bytes;
  }

  /** The generated decoder replaces invalid UTF-8 in another way. */
  toText(bytes: Buffer): string {
    const text = bytes.toString();
    if (text.includes("\ufffd")) this.stop();
    return text;
  }

  /** Reads a message whose only field has bytes. */
  readMember(field: number): Buffer {
    const end = this.readEnd();
    this.expect(field);
    const bytes = this.readBytes();
    this.expectEnd(end);
    return bytes;
  }

  expect(field: number): void {
    if (this.readNumber() !== field) this.stop();
  }

  expectEnd(end: number): void {
    if (this.offset !== end) this.stop();
  }
}
