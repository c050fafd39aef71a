/**
 * The bounds of the embedded log, in one place. Each says what happens at the bound.
 */

/** Largest append: data, metadata and twice the type of every event, as EventStoreDB counts it. Larger is refused. */
export const MAX_APPEND_BYTES = 1024 * 1024;

/** Largest gRPC message received. Above the append bound, so that a large append gets its own error. */
export const MAX_MESSAGE_BYTES = 17 * 1024 * 1024;

/** Longest stream name in UTF-8 bytes. Longer is an invalid argument. */
export const MAX_STREAM_NAME_BYTES = 4096;

/** Longest event type in UTF-8 bytes. Longer is an invalid argument. */
export const MAX_EVENT_TYPE_BYTES = 4096;

/** Appends and their bytes that may wait for the disk. Past either an append is answered as timed out. */
export const MAX_PENDING_WRITES = 8192;
export const MAX_PENDING_BYTES = 64 * 1024 * 1024;

/** Appends and bytes written with one fsync; the rest waits for the next one. */
export const MAX_GROUP_WRITES = 1024;
export const MAX_GROUP_BYTES = 4 * 1024 * 1024;

/** Appends of one BatchAppend call whose last part has not arrived. Past it the call ends. */
export const MAX_UNFINISHED_APPENDS = 64;

/** Messages and bytes handed to gRPC ahead of a reader. Past either the read waits for the reader. */
export const MAX_MESSAGES_AHEAD = 512;
export const MAX_BYTES_AHEAD = 4 * 1024 * 1024;

/** Stream heads kept in memory; the least recently written leave first and are read from disk again. */
export const MAX_CACHED_HEADS = 50_000;

/** Event ids remembered for appends that name no revision; the oldest leave first. */
export const MAX_CACHED_IDS = 100_000;

/** Newest events kept in memory for live subscriptions, by count and bytes. */
export const MAX_TAIL_EVENTS = 4096;
export const MAX_TAIL_BYTES = 8 * 1024 * 1024;

/** Events and bytes read from disk at once. */
export const PAGE_EVENTS = 1024;
export const PAGE_BYTES = 1024 * 1024;
