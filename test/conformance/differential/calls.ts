import { randomUUID } from "node:crypto";
import {
  type ANY,
  binaryEvent,
  type EventData,
  jsonEvent,
  type NO_STREAM,
  type STREAM_EXISTS,
} from "@eventstore/db-client";
import type { SequenceNames } from "./answers.ts";

/** Expected revision in a call. A number is relative to the last known revision of the stream. */
export type Expectation = typeof ANY | typeof NO_STREAM | typeof STREAM_EXISTS | number;

/** Expected revision in a deletion. The client does not support "stream exists" here. */
export type DeletionExpectation = Exclude<Expectation, typeof STREAM_EXISTS>;

/** An event to append. The number selects the event's id, so events with equal numbers have equal ids. */
export interface EventChoice {
  readonly number: number;
  readonly type: string;
  readonly content: "json" | "array" | "text" | "bytes" | "empty" | "large" | "oversized";
  readonly hasMetadata: boolean;
}

/**
 * Client method that sends an append:
 *
 * - batch: BatchAppend with one message
 * - single: Append without batches
 * - lenient: client that returns refusals instead of throwing them
 * - parts: BatchAppend with several messages
 */
export type AppendMethod = "batch" | "single" | "lenient" | "parts";

export type StartChoice = "start" | "end" | number;

export interface FilterChoice {
  readonly kind: "none" | "streamPrefix" | "streamRegex" | "typePrefix" | "typeRegex" | "noSystemEvents";
  readonly checkpointInterval: number;
  readonly maxSearchWindow: number | undefined;
}

interface ReadOptions {
  readonly start: StartChoice;
  readonly isBackwards: boolean;
  readonly maxCount: number | undefined;
  /** Number of events after which the client cancels the read. */
  readonly cancelAfter: number | undefined;
}

export type Call =
  | {
      readonly operation: "append";
      readonly stream: number;
      readonly expectation: Expectation;
      readonly events: readonly EventChoice[];
      readonly method: AppendMethod;
    }
  /** Sends a recent append again. If `expectation` is undefined, uses its original expected revision. */
  | {
      readonly operation: "retry";
      readonly age: number;
      readonly expectation: Expectation | undefined;
      readonly change: "none" | "reverse" | "firstOnly" | "addEvent" | "otherStream";
    }
  /** Appends an event with a deadline that has passed. */
  | { readonly operation: "expiredAppend"; readonly stream: number; readonly event: EventChoice }
  | {
      readonly operation: "setMetadata";
      readonly stream: number;
      readonly expectation: Expectation;
      readonly metadata: Readonly<Record<string, unknown>>;
    }
  /** Appends an event to the metadata stream, with data that the client's `setStreamMetadata` would refuse. */
  | {
      readonly operation: "setRawMetadata";
      readonly stream: number;
      readonly value: unknown;
      readonly type: string;
      readonly isJson: boolean;
    }
  | { readonly operation: "getMetadata"; readonly stream: number }
  /** Sets `$maxAge`, waits until all events of the stream have expired, uses the stream, and removes `$maxAge`. */
  | { readonly operation: "outlive"; readonly stream: number }
  | ({ readonly operation: "read"; readonly stream: number; readonly isMetadataStream: boolean } & ReadOptions)
  /** Reads all streams. If `start` is a number, it is the index of an event in the sequence. */
  | ({ readonly operation: "readAll" } & ReadOptions)
  /** Reads a stream with a deadline that has passed. */
  | { readonly operation: "expiredRead"; readonly stream: number }
  | { readonly operation: "delete" | "tombstone"; readonly stream: number; readonly expectation: DeletionExpectation }
  | { readonly operation: "subscribe"; readonly stream: number; readonly start: StartChoice }
  | { readonly operation: "subscribeToAll"; readonly start: StartChoice; readonly filter: FilterChoice }
  /** Cancels a recent subscription. */
  | { readonly operation: "unsubscribe"; readonly age: number };

export type CallOf<Operation extends Call["operation"]> = Extract<Call, { operation: Operation }>;

export const EVENT_TYPES = ["Alpha", "AlphaBeta", "Gamma", "$Delta"] as const;
export const STREAM_COUNT = 4;
/** Number of event ids in a sequence. */
export const EVENT_COUNT = 14;

/** Stream names and event ids of one sequence of calls. Both servers get the same ones. */
export class Sequence implements SequenceNames {
  readonly #name = randomUUID();
  readonly streams: readonly string[];
  readonly eventIds: readonly string[] = Array.from({ length: EVENT_COUNT }, () => randomUUID());
  /** Common prefix of the first two streams and of `lastStream`, for filters. */
  readonly prefix = `${this.#name}-a`;
  /** Stream and type of the events at the end of the sequence. Every filter includes them. */
  readonly lastStream = `${this.prefix}-last`;
  readonly lastType = "AlphaLast";
  /** Stream for events whose only purpose is to wait for earlier writes. Not part of the sequence. */
  readonly settlingStream = `settling-${randomUUID()}`;

  constructor() {
    const names = [`${this.prefix}-0`, `${this.prefix}-1`, `${this.#name}-b ~/+`, `$${this.#name}-system`];
    this.streams = names.slice(0, STREAM_COUNT);
  }

  isOwnStream(stream: string): boolean {
    return stream.includes(this.#name);
  }

  shortenStream(stream: string): string {
    return stream.replace(this.#name, "…");
  }

  shortenId(id: string): string {
    const index = this.eventIds.indexOf(id);
    return index < 0 ? "generated" : `id ${index}`;
  }
}

/** Lengths of texts. The limit is 1 MiB for one event, and 1 MiB for all events of an append together. */
const TEXT_LENGTHS = { large: 350_000, oversized: 1_100_000 };

export function createEvent({ number, type, content, hasMetadata }: EventChoice, sequence: Sequence): EventData {
  const id = sequence.eventIds[number]!;
  const metadata = hasMetadata ? { number } : undefined;
  switch (content) {
    case "bytes":
      return binaryEvent({ id, type, data: Buffer.from([0, 255, number]) });
    case "empty":
      return binaryEvent({ id, type, data: Buffer.alloc(0) });
    case "json":
      return jsonEvent({ id, type, data: { number }, metadata });
    case "array":
      return jsonEvent({ id, type, data: [number], metadata });
    case "text":
      // The client's type excludes texts, but the client sends them.
      return jsonEvent({ id, type, data: "ä €" as unknown as Record<string, unknown>, metadata });
    default:
      return jsonEvent({ id, type, data: { text: "x".repeat(TEXT_LENGTHS[content]) }, metadata });
  }
}

export function createRawMetadata({ type, value, isJson }: CallOf<"setRawMetadata">): EventData {
  return isJson
    ? jsonEvent({ type, data: value as Record<string, unknown> })
    : binaryEvent({ type, data: Buffer.from(JSON.stringify(value)) });
}

interface FirstUse {
  readonly stream: number;
  readonly revision: number;
}

/** For each event id, the stream and revision at which the sequence first wrote it. */
export class KnownIds {
  readonly #firstUses = new Map<string, FirstUse>();

  /** Adds the ids of a successful append. @param lastRevision revision of the last id */
  add(stream: number, ids: readonly string[], lastRevision: number): void {
    const firstRevision = lastRevision - ids.length + 1;
    for (const [index, id] of ids.entries())
      if (!this.#firstUses.has(id)) this.#firstUses.set(id, { stream, revision: firstRevision + index });
  }

  /**
   * Returns true if a stream contains all ids, and the last id at least two revisions before the first id. EventStoreDB
   * never answers an append of such ids unless it expects an exact revision.
   */
  hasReversedIds(stream: number, ids: readonly string[]): boolean {
    const uses = ids.map((id) => this.#firstUses.get(id));
    if (uses.some((use) => use?.stream !== stream)) return false;
    return (uses.at(-1)?.revision ?? 0) < (uses[0]?.revision ?? 0) - 1;
  }
}
