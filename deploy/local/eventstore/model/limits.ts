/**
 * All limits of the embedded log. Each comment says what happens at the limit.
 */

/**
 * Maximum size of an append in bytes. It counts data, metadata and twice the type of each event, like EventStoreDB. Larger
 * appends are refused.
 */
export const MAX_APPEND_BYTES = 1024 * 1024;

/**
 * Maximum size of an append on disk in bytes, including stream name and id of each event. Larger appends are refused.
 * About 50,000 empty events reach this limit.
 */
export const MAX_APPEND_STORED_BYTES = 32 * 1024 * 1024;

/** Maximum gRPC message size. It exceeds MAX_APPEND_BYTES, so that an append that is too large gets a specific error. */
export const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;

/** Maximum length of a stream name in UTF-8 bytes. Longer names are refused as invalid arguments. */
export const MAX_STREAM_NAME_BYTES = 4096;

/** Maximum length of an event type in UTF-8 bytes. Longer types are refused as invalid arguments. */
export const MAX_EVENT_TYPE_BYTES = 4096;

/** Maximum number of appends that wait for the disk. Further appends fail with a timeout error. */
export const MAX_PENDING_WRITES = 8192;

/** Maximum size of all appends that wait for the disk. Further appends fail with a timeout error. */
export const MAX_PENDING_BYTES = 64 * 1024 * 1024;

/** Maximum number of appends in one frame with one fsync. Further appends wait for the next frame. */
export const MAX_GROUP_WRITES = 1024;

/** Maximum size of the appends in one frame. The last append may exceed it. Further appends wait for the next frame. */
export const MAX_GROUP_BYTES = 4 * 1024 * 1024;

/** Maximum number of appends of one BatchAppend call whose last part is missing. Beyond it, the call fails. */
export const MAX_UNFINISHED_APPENDS = 64;

/** Maximum number of messages that gRPC queues for a slow client. At the limit, the read waits for the client. */
export const MAX_QUEUED_MESSAGES = 512;

/** Maximum size of the messages that gRPC queues for a slow client. At the limit, the read waits for the client. */
export const MAX_QUEUED_BYTES = 4 * 1024 * 1024;

/** Maximum number of event ids kept to recognise retries of appends without an exact revision. The oldest are dropped. */
export const MAX_CACHED_IDS = 100_000;

/** Maximum number of new events kept in memory for live subscriptions. The oldest are dropped. */
export const MAX_RECENT_EVENTS = 4096;

/** Maximum size of the new events kept in memory for live subscriptions. The oldest are dropped. */
export const MAX_RECENT_BYTES = 8 * 1024 * 1024;

/** Maximum number of events on one page. A read loads one page at a time from disk. */
export const MAX_PAGE_EVENTS = 1024;

/** Maximum size of one page. A larger event is a page by itself. */
export const MAX_PAGE_BYTES = 1024 * 1024;

/** Maximum number of disk reads for one page of a stream. A page that would need more is split. */
export const MAX_PAGE_READS = 64;

/** Maximum gap between two events of a stream that one disk read covers. */
export const MAX_READ_GAP_BYTES = 64 * 1024;

/** Size at which a segment is full and the next segment starts. A segment may exceed it by one frame. */
export const FULL_SEGMENT_BYTES = 64 * 1024 * 1024;

/** Upper bound of a frame's size: a full group, one more append and a copy of that stream's metadata. */
export const MAX_FRAME_BYTES = 64 * 1024 * 1024;

/** Maximum numbers of events, streams and segments in the log. */
export interface LogLimits {
  readonly events: number;
  readonly streams: number;
  readonly segments: number;
}

/**
 * Limits of the whole log. At a limit, the log refuses appends and still serves reads. A log beyond a limit does not start.
 * The index is in memory. It takes 24 MB per million events, and 100 MB per million streams with names of 48 characters.
 * All segment files stay open. Together they hold about 64 GiB.
 */
export const LOG_LIMITS: LogLimits = { events: 64_000_000, streams: 8_000_000, segments: 1024 };
