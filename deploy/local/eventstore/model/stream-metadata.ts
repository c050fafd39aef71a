/**
 * Stream metadata. Keys that the log does not support are refused, so that none is silently ignored.
 */
import { z } from "zod";
import type { ProposedEvent } from "./record.ts";

/** EventStoreDB marks a soft-deleted stream with the largest 64-bit revision as `$tb`. */
const SOFT_DELETED = "9223372036854775807";
const SOFT_DELETED_FROM = 2 ** 63;

/** Type of the events in a metadata stream. */
export const METADATA_TYPE = "$metadata";

/** The effect of metadata on reads of the stream. */
export interface MetadataEffect {
  readonly truncateBefore: number;
  readonly maxCount: number;
  readonly softDeleted: boolean;
}

const UNSUPPORTED = ["$maxAge", "$cacheControl", "$acl"] as const;

/** zod's `int` allows safe integers only, which are below the mark of a soft deletion. */
const whole = z.number().nonnegative().refine(Number.isInteger);

const schema = z.looseObject({
  $tb: whole.optional(),
  $maxCount: whole.min(1).optional(),
});

/** Metadata that the log refuses. The message is a sentence for the caller. */
export class MetadataError extends Error {
  override readonly name = "MetadataError";
}

/**
 * Returns the effect of a metadata event.
 * @throws MetadataError if the event is not valid metadata or uses a key that the log does not support
 */
export function readMetadata(event: ProposedEvent): MetadataEffect {
  if (event.type !== METADATA_TYPE) {
    throw new MetadataError(`A metadata stream accepts only events of type ${METADATA_TYPE}.`);
  }
  const body = schema.safeParse(parseObject(event.data));
  if (!body.success) {
    throw new MetadataError(
      "Stream metadata must be a JSON object. $maxCount must be a positive integer, $tb an integer of at least 0.",
    );
  }
  const unsupported = UNSUPPORTED.find((key) => key in body.data);
  if (unsupported !== undefined) {
    throw new MetadataError(`The embedded log does not support the stream metadata ${unsupported}.`);
  }
  const truncateBefore = body.data.$tb ?? 0;
  const softDeleted = truncateBefore >= SOFT_DELETED_FROM;
  return {
    truncateBefore: softDeleted ? 0 : Math.min(truncateBefore, Number.MAX_SAFE_INTEGER),
    maxCount: body.data.$maxCount ?? 0,
    softDeleted,
  };
}

/** Returns the data of the metadata event that soft-deletes a stream. */
export function softDeletion(): Uint8Array {
  return Buffer.from(`{"$tb":${SOFT_DELETED}}`);
}

/** Returns the data of the metadata event that restores a soft-deleted stream from a revision on, with its other keys. */
export function recreation(previous: Uint8Array | undefined, truncateBefore: number): Uint8Array {
  const body = previous === undefined ? {} : parseObject(previous);
  return Buffer.from(JSON.stringify({ ...body, $tb: truncateBefore }));
}

function parseObject(data: Uint8Array): object {
  try {
    const body: unknown = JSON.parse(Buffer.from(data).toString("utf8"));
    if (typeof body === "object" && body !== null && !Array.isArray(body)) return body;
  } catch (error) {
    throw new MetadataError("Stream metadata must be JSON.", { cause: error });
  }
  throw new MetadataError("Stream metadata must be a JSON object.");
}
