/**
 * Maximum size of an append in bytes. As in EventStoreDB, the size of an event is its data, its metadata and twice the
 * length of its type. Larger appends are refused.
 */
export const MAX_APPEND_BYTES = 1024 * 1024;

/**
 * Maximum size of an append on disk in bytes, including each event's stream name and id. Larger appends are refused.
 * About 50,000 empty events reach this limit.
 */
export const MAX_APPEND_STORED_BYTES = 32 * 1024 * 1024;

/**
 * Maximum size of a gRPC message. It exceeds MAX_APPEND_BYTES, so that an oversized append reaches the log, which
 * refuses it with a specific error.
 */
export const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;

/** In UTF-8. Longer names are refused as invalid arguments. */
export const MAX_STREAM_NAME_BYTES = 4096;

/** In UTF-8. Longer types are refused as invalid arguments. */
export const MAX_EVENT_TYPE_BYTES = 4096;

/** Further appends fail with a timeout error. */
export const MAX_PENDING_WRITES = 8192;

/** Limits all appends that wait for the disk. Further appends fail with a timeout error. */
export const MAX_PENDING_BYTES = 64 * 1024 * 1024;

/** Limits the appends in one frame. Further appends wait for the next frame. */
export const MAX_GROUP_WRITES = 1024;

/**
 * Size of the appends in bytes at which a frame is full. The last append may take the frame over this size. Further
 * appends wait for the next frame.
 */
export const MAX_GROUP_BYTES = 4 * 1024 * 1024;

/**
 * Maximum number of unfinished appends of one BatchAppend call. An append is unfinished until its last part arrives. If
 * a call exceeds the limit, it fails.
 */
export const MAX_UNFINISHED_APPENDS = 64;

/** Maximum number of messages that gRPC queues for a slow client. At the limit, the read waits for the client. */
export const MAX_QUEUED_MESSAGES = 512;

/** Maximum size of the messages that gRPC queues for a slow client. At the limit, the read waits for the client. */
export const MAX_QUEUED_BYTES = 4 * 1024 * 1024;

/**
 * Maximum number of event ids kept to recognise retries of appends without an exact revision. The oldest ids are
 * dropped.
 */
export const MAX_CACHED_IDS = 100_000;

/** Maximum number of new events kept in memory for live subscriptions. The oldest events are dropped. */
export const MAX_RECENT_EVENTS = 4096;

/** Maximum size of the new events kept in memory for live subscriptions. The oldest events are dropped. */
export const MAX_RECENT_BYTES = 8 * 1024 * 1024;

/** Maximum number of events on one page. A read loads one page at a time from disk. */
export const MAX_PAGE_EVENTS = 1024;

/** An event that exceeds the limit gets its own page. */
export const MAX_PAGE_BYTES = 1024 * 1024;

/** Maximum number of disk reads for one page of a stream. If a page needs more disk reads, it is split. */
export const MAX_DISK_READS_PER_PAGE = 64;

/** Two events of a stream share a disk read if the gap between them does not exceed this number of bytes. */
export const MAX_READ_GAP_BYTES = 64 * 1024;

/** Settings of a log that tests and benchmarks change. */
export interface LogOptions {
  /** If true, each append is flushed to disk before it is acknowledged. Only benchmarks disable this. */
  readonly shouldSync: boolean;
  /** Prints a line for the operator. A line may contain internal error details that clients do not see. */
  readonly printLine: (line: string) => void;
}

export const DEFAULT_LOG_OPTIONS: LogOptions = {
  shouldSync: true,
  printLine: () => undefined,
};
