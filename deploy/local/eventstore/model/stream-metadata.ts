/**
 * Stream metadata, by the rules of EventStoreDB: a metadata stream accepts every event, and metadata that EventStoreDB
 * cannot parse has no effect.
 */
import { z } from "zod";
import type { AppendTarget } from "./append-rules.ts";
import type { ProposedEvent } from "./record.ts";

/** Value of `$tb` for a soft-deleted stream: the largest 64-bit revision, as in EventStoreDB. */
const SOFT_DELETED_TRUNCATE_BEFORE = "9223372036854775807";
const SOFT_DELETED_PATTERN = new RegExp(`"\\$tb"\\s*:\\s*${SOFT_DELETED_TRUNCATE_BEFORE}(?![\\d.eE])`);
const INT64_BOUND = 2 ** 63;
/** Longest time that .NET represents. */
const MAX_TIME_SPAN_SECONDS = 922_337_203_685;

export const METADATA_EVENT_TYPE = "$metadata";

interface MetadataEffect {
  /** From `$tb`. */
  readonly truncateBefore: number;
  /** From `$maxCount`. 0 means no maximum. */
  readonly maxCount: number;
  /** From `$maxAge`. Older events are hidden from reads. 0 means no maximum. */
  readonly maxAgeSeconds: number;
  readonly isSoftDeleted: boolean;
}

export const NO_EFFECT: MetadataEffect = { truncateBefore: 0, maxCount: 0, maxAgeSeconds: 0, isSoftDeleted: false };

// zod's `int` is not suitable, because it allows only safe integers, and the `$tb` of a soft deletion is larger.
const integerSchema = z
  .number()
  .refine((value) => Number.isInteger(value) && value >= -INT64_BOUND && value < INT64_BOUND);
const rolesSchema = z.union([z.string(), z.array(z.string())]);

const metadataSchema = z.looseObject({
  $tb: z.union([integerSchema, z.literal(INT64_BOUND)]).optional(),
  $maxCount: integerSchema.optional(),
  $maxAge: integerSchema.min(-MAX_TIME_SPAN_SECONDS).max(MAX_TIME_SPAN_SECONDS).optional(),
  $cacheControl: integerSchema.optional(),
  $tmp: z.boolean().optional(),
  $acl: z
    .object({ $r: rolesSchema, $w: rolesSchema, $d: rolesSchema, $mr: rolesSchema, $mw: rolesSchema })
    .partial()
    .optional(),
});

/** Returns the effect of a metadata event on reads. Negative numbers and 0 have no effect. */
export function parseMetadata(event: ProposedEvent): MetadataEffect {
  if (event.contentType !== "application/json") return NO_EFFECT;
  const text = Buffer.from(event.data).toString("utf8");
  const parseResult = metadataSchema.safeParse(parseJsonObject(text));
  if (!parseResult.success) return NO_EFFECT;
  const { $tb = 0, $maxCount = 0, $maxAge = 0 } = parseResult.data;
  // The number is read from the text, because JavaScript's numbers are too imprecise.
  const isSoftDeleted = $tb === INT64_BOUND && SOFT_DELETED_PATTERN.test(text);
  if ($tb === INT64_BOUND && !isSoftDeleted) return NO_EFFECT;
  return {
    truncateBefore: isSoftDeleted ? 0 : clampToSafeInteger($tb),
    maxCount: clampToSafeInteger($maxCount),
    maxAgeSeconds: clampToSafeInteger($maxAge),
    isSoftDeleted,
  };
}

function clampToSafeInteger(value: number): number {
  return Math.min(Math.max(0, value), Number.MAX_SAFE_INTEGER);
}

export function encodeSoftDeletion(): Uint8Array {
  return Buffer.from(`{"$tb":${SOFT_DELETED_TRUNCATE_BEFORE}}`);
}

/**
 * Encodes the data of a metadata event that restores a soft-deleted stream. Earlier events stay hidden, and all
 * metadata keys except `$tb` are kept. Returns undefined if the previous metadata is not a JSON object. The stream then
 * needs no restoration, because such metadata has no effect.
 *
 * @param truncateBefore first revision that reads return
 */
export function encodeRestoration(previousData: Uint8Array, truncateBefore: number): Uint8Array | undefined {
  const body = parseJsonObject(Buffer.from(previousData).toString("utf8"));
  return body === undefined ? undefined : Buffer.from(JSON.stringify({ ...body, $tb: truncateBefore }));
}

function parseJsonObject(text: string): object | undefined {
  try {
    const body: unknown = JSON.parse(text);
    return typeof body === "object" && body !== null && !Array.isArray(body) ? body : undefined;
  } catch {
    return undefined;
  }
}

/** State of a stream: its last revision, and the effect of metadata and deletions on reads. */
export type StreamState = AppendTarget & MetadataEffect;

export function getMetadataStream(stream: string): string {
  return `$$${stream}`;
}

/** Returns the name of the stream that a metadata stream describes; undefined for any other stream. */
export function getOriginalStream(stream: string): string | undefined {
  return stream.startsWith("$$") ? stream.slice(2) : undefined;
}

/**
 * Returns the first revision that reads may return. For a metadata stream, this is the revision of the newest event.
 */
export function getFirstReadableRevision(stream: string, state: StreamState): number {
  const maxCount = getOriginalStream(stream) === undefined ? state.maxCount : 1;
  const firstRetainedRevision = maxCount > 0 ? state.lastRevision - maxCount + 1 : 0;
  return Math.max(0, state.truncateBefore, firstRetainedRevision);
}

/** Returns true if reads find the stream: it has events and is not soft-deleted. */
export function isReadable(state: StreamState): boolean {
  return state.lastRevision >= 0 && !state.isSoftDeleted;
}
