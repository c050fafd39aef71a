/**
 * All limits of the embedded log, each with what happens when it is reached.
 */

/**
 * Largest append: data, metadata and twice the type of every event, as EventStoreDB counts them. Larger appends are
 * refused. Bytes.
 */
export const MAX_APPEND_BYTES = 1024 * 1024;

/**
 * Largest append as stored, including the names and ids in every event. Larger appends are refused. About 50,000 empty
 * events reach this limit. Bytes.
 */
export const MAX_APPEND_STORED_BYTES = 32 * 1024 * 1024;

/** Largest gRPC message. Greater than MAX_APPEND_BYTES, so that a large append gets its own error. */
export const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;

/** Longest stream name, in UTF-8 bytes. Longer names are invalid arguments. */
export const MAX_STREAM_NAME_BYTES = 4096;

/** Longest event type, in UTF-8 bytes. Longer types are invalid arguments. */
export const MAX_EVENT_TYPE_BYTES = 4096;

/** Appends that wait for the disk, and their bytes. Beyond either limit, an append is answered as timed out. */
export const MAX_PENDING_WRITES = 8192;
export const MAX_PENDING_BYTES = 64 * 1024 * 1024;

/** Appends and bytes in one frame with one fsync; the last append may exceed the bytes. Other appends wait. */
export const MAX_GROUP_WRITES = 1024;
export const MAX_GROUP_BYTES = 4 * 1024 * 1024;

/** Incomplete appends of one BatchAppend call. Beyond the limit, the call ends with an error. */
export const MAX_UNFINISHED_APPENDS = 64;

/** Messages and bytes queued in gRPC for a slow reader. Beyond either limit, the read waits for the reader. */
export const MAX_MESSAGES_AHEAD = 512;
export const MAX_BYTES_AHEAD = 4 * 1024 * 1024;

/** Event ids kept to recognise retries of appends without an exact revision. The oldest are dropped first. */
export const MAX_CACHED_IDS = 100_000;

/** Newest events kept in memory for live subscriptions, by number and bytes. */
export const MAX_RECENT_EVENTS = 4096;
export const MAX_RECENT_BYTES = 8 * 1024 * 1024;

/** Events and bytes of one page, which is read from disk at once. */
export const PAGE_EVENTS = 1024;
export const PAGE_BYTES = 1024 * 1024;

/** Disk reads for one page of a stream, and the distance in bytes up to which events are read together. */
export const MAX_PAGE_READS = 64;
export const READ_TOGETHER_BYTES = 64 * 1024;

/** A segment that has this length is followed by a new one. It may exceed this by one frame. Bytes. */
export const SEGMENT_BYTES = 64 * 1024 * 1024;

/** Longer than any frame: a group's bytes, the largest append and a copy of its stream's metadata. Bytes. */
export const MAX_FRAME_BYTES = 64 * 1024 * 1024;

/** Largest number of events, streams and segments in the log. */
export interface LogBounds {
  readonly events: number;
  readonly streams: number;
  readonly segments: number;
}

/**
 * Limits of the whole log. If one is reached, appends are refused and reads continue; a larger log does not start. The
 * index is in memory: measured, 24 MB per million events and 100 MB per million streams with names of 48 characters.
 * All segment files stay open. Together they hold about 64 GiB: each may exceed SEGMENT_BYTES by one frame.
 */
export const LOG_BOUNDS: LogBounds = { events: 64_000_000, streams: 8_000_000, segments: 1024 };
