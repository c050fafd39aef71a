import type { StreamIdentifier, UUID } from "@eventstore/db-client/generated/shared_pb.js";
import type { AppendReq, BatchAppendReq } from "@eventstore/db-client/generated/streams_pb.js";
import { ANY, NO_STREAM, STREAM_EXISTS } from "../model/append-rules.ts";
import { getMaxRecordBytes, type ProposedEvent } from "../model/record.ts";
import {
  createAppendTooLargeError,
  createInvalidArgumentError,
  createMissingPropertyError,
  MAX_APPEND_BYTES,
} from "./errors.ts";

/**
 * Maximum size of an append on disk in bytes, including each event's stream name and id. Larger appends are refused.
 * About 50,000 empty events reach this limit.
 */
const MAX_APPEND_STORED_BYTES = 32 * 1024 * 1024;

/** In UTF-8. Longer names are refused as invalid arguments. */
const MAX_STREAM_NAME_BYTES = 4096;

/** In UTF-8. Longer types are refused as invalid arguments. */
const MAX_EVENT_TYPE_BYTES = 4096;

const UUID_PATTERN = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;
const utf8Decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * Parses a UUID that was sent as text or as two 64-bit numbers. Returns it as canonical text.
 * @throws CallError if the UUID is missing or invalid
 */
export function parseUuid(uuid: UUID | undefined, label: string): string {
  const text = uuid?.hasStructured() ? formatStructuredUuid(uuid) : uuid?.getString().toLowerCase();
  if (text === undefined || !UUID_PATTERN.test(text)) throw createInvalidArgumentError(`${label} must be a UUID.`);
  return text;
}

function formatStructuredUuid(uuid: UUID): string {
  const toHex = (bits: string) => BigInt.asUintN(64, BigInt(bits)).toString(16).padStart(16, "0");
  const halves = uuid.getStructured();
  const hex = toHex(halves?.getMostSignificantBits() ?? "0") + toHex(halves?.getLeastSignificantBits() ?? "0");
  return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-${hex.slice(12, 16)}-${hex.slice(16, 20)}-${hex.slice(20)}`;
}

/**
 * Parses the name of a stream.
 * @throws CallError if the name is missing, empty, too long, not UTF-8, `$all`, or contains a NUL character
 */
export function parseStreamName(identifier: StreamIdentifier | undefined): string {
  const bytes = identifier?.getStreamName_asU8() ?? new Uint8Array(0);
  if (bytes.length === 0) throw createInvalidArgumentError("A stream name must not be empty.");
  if (bytes.length > MAX_STREAM_NAME_BYTES) {
    throw createInvalidArgumentError(`A stream name can have at most ${MAX_STREAM_NAME_BYTES} bytes.`);
  }
  if (bytes.includes(0)) throw createInvalidArgumentError("A stream name must not contain a NUL character.");
  const name = decodeUtf8(bytes);
  if (name === "$all") throw createInvalidArgumentError("$all is not a stream. Use a read of all streams instead.");
  return name;
}

function decodeUtf8(bytes: Uint8Array): string {
  try {
    return utf8Decoder.decode(bytes);
  } catch {
    throw createInvalidArgumentError("A stream name must be UTF-8.");
  }
}

/**
 * Parses the name of a stream for a write.
 * @throws CallError if the name is invalid or would give metadata to a metadata stream
 */
export function parseWritableStreamName(identifier: StreamIdentifier | undefined): string {
  const name = parseStreamName(identifier);
  if (name.startsWith("$$$$")) throw createInvalidArgumentError("A metadata stream cannot have metadata.");
  if (name === "$$")
    throw createInvalidArgumentError("The name of a metadata stream must be $$ followed by a stream name.");
  return name;
}

/** Returns the special revision (`NO_STREAM`, `STREAM_EXISTS` or `ANY`) of a request that names no exact revision. */
export function parseExpectedState(options: { hasNoStream(): boolean; hasStreamExists(): boolean }): number {
  if (options.hasNoStream()) return NO_STREAM;
  return options.hasStreamExists() ? STREAM_EXISTS : ANY;
}

/** Parses a number. A number above the largest safe integer becomes the largest safe integer. */
export function parseUint64(text: string): number {
  return Math.min(Number(text), Number.MAX_SAFE_INTEGER);
}

type ProposedMessage = AppendReq.ProposedMessage | BatchAppendReq.ProposedMessage;

function parseProposedEvent(message: ProposedMessage): ProposedEvent {
  const properties = message.getMetadataMap();
  const type = properties.get("type");
  const contentType = properties.get("content-type");
  if (type === undefined || type === "") throw createMissingPropertyError("type");
  if (contentType === undefined) throw createMissingPropertyError("content-type");
  if (Buffer.byteLength(type) > MAX_EVENT_TYPE_BYTES) {
    throw createInvalidArgumentError(`An event type can have at most ${MAX_EVENT_TYPE_BYTES} bytes.`);
  }
  return {
    id: parseUuid(message.getId(), "An event id"),
    type,
    contentType: contentType === "application/json" ? contentType : "application/octet-stream",
    data: message.getData_asU8(),
    metadata: message.getCustomMetadata_asU8(),
  };
}

export class AppendEventList {
  readonly stream: string;
  readonly events: ProposedEvent[] = [];
  /** Upper bound of the size on disk. */
  storedBytes = 0;
  #sentBytes = 0;

  constructor(stream: string) {
    this.stream = stream;
  }

  /** @throws CallError if an event is invalid or the append is too large */
  add(messages: readonly ProposedMessage[]): void {
    const events = messages.map(parseProposedEvent);
    for (const event of events) {
      this.#sentBytes += event.data.length + event.metadata.length + 2 * event.type.length;
      this.storedBytes += getMaxRecordBytes(this.stream, event);
      if (this.#sentBytes > MAX_APPEND_BYTES || this.storedBytes > MAX_APPEND_STORED_BYTES)
        throw createAppendTooLargeError();
    }
    this.events.push(...events);
  }
}
