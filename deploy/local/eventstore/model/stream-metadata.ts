/** Stream metadata. Metadata with unsupported system keys is refused instead of being silently ignored. */
import { z } from "zod";
import type { ProposedEvent } from "./record.ts";

/** Value of `$tb` for a soft-deleted stream: the largest 64-bit revision, as in EventStoreDB. */
const SOFT_DELETED_TRUNCATE_BEFORE = "9223372036854775807";
const MIN_SOFT_DELETED_TRUNCATE_BEFORE = 2 ** 63;

/** Event type of all events in a metadata stream. */
export const METADATA_EVENT_TYPE = "$metadata";

/** Effect of a stream's metadata on reads of the stream. */
export interface MetadataEffect {
  readonly truncateBefore: number;
  readonly maxCount: number;
  readonly isSoftDeleted: boolean;
}

const UNSUPPORTED_KEYS = ["$maxAge", "$cacheControl", "$acl"] as const;

/** zod's `int` is not suitable, because it allows only safe integers, and the `$tb` of a soft deletion is larger. */
const nonNegativeIntegerSchema = z.number().nonnegative().refine(Number.isInteger);

const metadataSchema = z.looseObject({
  $tb: nonNegativeIntegerSchema.optional(),
  $maxCount: nonNegativeIntegerSchema.min(1).optional(),
});

/** The stream metadata is invalid or unsupported. The message is a sentence for the client. */
export class MetadataError extends Error {
  override readonly name = "MetadataError";
}

/**
 * Parses a metadata event and returns its effect on reads of the stream.
 * @throws MetadataError if the event is not valid metadata or uses an unsupported key
 */
export function parseMetadata(event: ProposedEvent): MetadataEffect {
  if (event.type !== METADATA_EVENT_TYPE) {
    throw new MetadataError(`A metadata stream accepts only events of type ${METADATA_EVENT_TYPE}.`);
  }
  const parseResult = metadataSchema.safeParse(parseJsonObject(event.data));
  if (!parseResult.success) {
    throw new MetadataError(
      "Stream metadata must be a JSON object. $maxCount must be a positive integer, and $tb a non-negative integer.",
    );
  }
  const unsupportedKey = UNSUPPORTED_KEYS.find((key) => key in parseResult.data);
  if (unsupportedKey !== undefined) {
    throw new MetadataError(`The embedded log does not support the stream metadata ${unsupportedKey}.`);
  }
  const truncateBefore = parseResult.data.$tb ?? 0;
  const isSoftDeleted = truncateBefore >= MIN_SOFT_DELETED_TRUNCATE_BEFORE;
  return {
    truncateBefore: isSoftDeleted ? 0 : Math.min(truncateBefore, Number.MAX_SAFE_INTEGER),
    maxCount: parseResult.data.$maxCount ?? 0,
    isSoftDeleted,
  };
}

/** Encodes the data of a metadata event that soft-deletes a stream. */
export function encodeSoftDeletion(): Uint8Array {
  return Buffer.from(`{"$tb":${SOFT_DELETED_TRUNCATE_BEFORE}}`);
}

/**
 * Encodes the data of a metadata event that restores a soft-deleted stream. Earlier events stay hidden, and all
 * metadata keys except `$tb` are kept.
 *
 * @param truncateBefore first revision that reads return
 */
export function encodeRestoration(previousData: Uint8Array | undefined, truncateBefore: number): Uint8Array {
  const body = previousData === undefined ? {} : parseJsonObject(previousData);
  return Buffer.from(JSON.stringify({ ...body, $tb: truncateBefore }));
}

function parseJsonObject(data: Uint8Array): object {
  try {
    const body: unknown = JSON.parse(Buffer.from(data).toString("utf8"));
    if (typeof body === "object" && body !== null && !Array.isArray(body)) return body;
  } catch (error) {
    throw new MetadataError("Stream metadata must be JSON.", { cause: error });
  }
  throw new MetadataError("Stream metadata must be a JSON object.");
}
