/** The calls that the differential test sends to both servers. `call-sequences.ts` generates them. */
import type { ANY, NO_STREAM, STREAM_EXISTS } from "@eventstore/db-client";

/** Expected revision of a call. A number is an offset from the last revision that the stream is known to have. */
export type Expectation = typeof ANY | typeof NO_STREAM | typeof STREAM_EXISTS | number;

/** Expected revision of a deletion. The client's deletions do not support "stream exists". */
export type DeletionExpectation = Exclude<Expectation, typeof STREAM_EXISTS>;

/** An event of an append. Events with the same number have the same id, even in different appends and streams. */
export interface EventChoice {
  readonly number: number;
  readonly type: string;
  readonly content: "json" | "array" | "text" | "bytes" | "empty" | "large" | "oversized";
  readonly hasMetadata: boolean;
}

/** How the client sends an append: as one batch, without batches, without throwing errors, or as several messages. */
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
  /** Repeats one of the last appends. If `expectation` is undefined, also repeats its expected revision. */
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
  /** Appends an event to the metadata stream, with data that the client's function for metadata does not accept. */
  | {
      readonly operation: "setRawMetadata";
      readonly stream: number;
      readonly value: unknown;
      readonly type: string;
      readonly isJson: boolean;
    }
  | { readonly operation: "getMetadata"; readonly stream: number }
  /** Sets `$maxAge`, waits until all events of the stream are too old, uses the stream, and removes `$maxAge`. */
  | { readonly operation: "outlive"; readonly stream: number }
  | ({ readonly operation: "read"; readonly stream: number; readonly isMetadataStream: boolean } & ReadOptions)
  /** Reads all streams. A number as the start is the index of an event of the sequence. */
  | ({ readonly operation: "readAll" } & ReadOptions)
  /** Reads a stream with a deadline that has passed. */
  | { readonly operation: "expiredRead"; readonly stream: number }
  | { readonly operation: "delete" | "tombstone"; readonly stream: number; readonly expectation: DeletionExpectation }
  | { readonly operation: "subscribe"; readonly stream: number; readonly start: StartChoice }
  | { readonly operation: "subscribeToAll"; readonly start: StartChoice; readonly filter: FilterChoice }
  /** Cancels one of the last subscriptions. */
  | { readonly operation: "unsubscribe"; readonly age: number };

/** The call with a given operation. */
export type CallOf<Operation extends Call["operation"]> = Extract<Call, { operation: Operation }>;

export const EVENT_TYPES = ["Alpha", "AlphaBeta", "Gamma", "$Delta"] as const;
export const STREAM_COUNT = 4;
/** Number of different event ids in a sequence. */
export const EVENT_COUNT = 14;
