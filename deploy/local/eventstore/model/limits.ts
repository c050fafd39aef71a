/**
 * The bounds of the embedded log, in one place. Each says what happens at the bound.
 */

/** Largest append: data, metadata and twice the type of every event, as EventStoreDB counts it. Larger is refused. */
export const MAX_APPEND_BYTES = 1024 * 1024;

/**
 * Largest append as stored, with the names and ids that every event repeats. Larger is refused: it takes some
 * 50,000 empty events, more with short names. Bytes.
 */
export const MAX_APPEND_STORED_BYTES = 32 * 1024 * 1024;

/** Largest gRPC message received. Above the append bound, so that a large append gets its own error. */
export const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;

/** Longest stream name in UTF-8 bytes. Longer is an invalid argument. */
export const MAX_STREAM_NAME_BYTES = 4096;

/** Longest event type in UTF-8 bytes. Longer is an invalid argument. */
export const MAX_EVENT_TYPE_BYTES = 4096;

/** Appends and their bytes that may wait for the disk. Past either an append is answered as timed out. */
export const MAX_PENDING_WRITES = 8192;
export const MAX_PENDING_BYTES = 64 * 1024 * 1024;

/** Appends and bytes written as one frame with one fsync; the last append may exceed the bytes. The rest waits. */
export const MAX_GROUP_WRITES = 1024;
export const MAX_GROUP_BYTES = 4 * 1024 * 1024;

/** Appends of one BatchAppend call whose last part has not arrived. Past it the call ends. */
export const MAX_UNFINISHED_APPENDS = 64;

/** Messages and bytes handed to gRPC ahead of a reader. Past either the read waits for the reader. */
export const MAX_MESSAGES_AHEAD = 512;
export const MAX_BYTES_AHEAD = 4 * 1024 * 1024;

/** Event ids remembered for appends that name no revision; the oldest leave first. */
export const MAX_CACHED_IDS = 100_000;

/** Newest events kept in memory for live subscriptions, by count and bytes. */
export const MAX_RECENT_EVENTS = 4096;
export const MAX_RECENT_BYTES = 8 * 1024 * 1024;

/** Events and bytes read from disk at once. */
export const PAGE_EVENTS = 1024;
export const PAGE_BYTES = 1024 * 1024;

/** Reads from disk for one page of a stream. Events this close in a segment are read together. Bytes. */
export const MAX_PAGE_READS = 64;
export const READ_TOGETHER_BYTES = 64 * 1024;

/** Length at which a segment is followed by a new one. It may exceed this by one frame. Bytes. */
export const SEGMENT_BYTES = 64 * 1024 * 1024;

/** Longer than any frame: a group's bytes, the largest append and a copy of its stream's metadata. Bytes. */
export const MAX_FRAME_BYTES = 64 * 1024 * 1024;

/** Most events, streams and segments that the log holds. */
export interface LogBounds {
  readonly events: number;
  readonly streams: number;
  readonly segments: number;
}

/**
 * Bounds of the whole log. Beyond one, appends are refused and reads go on; a start refuses a larger log. The index
 * is in memory: 24 MB per million events, and 100 MB per million streams with names of 48 characters (measured).
 * All segment files stay open. Together they hold about 64 GiB: each may exceed SEGMENT_BYTES by one frame.
 */
export const LOG_BOUNDS: LogBounds = { events: 64_000_000, streams: 8_000_000, segments: 1024 };
