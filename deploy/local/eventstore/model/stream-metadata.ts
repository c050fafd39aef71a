/**
 * Stream metadata: what is honoured, and a refusal for what is not, so that nothing is silently ignored.
 */
import { z } from "zod";
import type { ProposedEvent } from "./record.ts";

/** EventStoreDB's mark of a soft-deleted stream: a `$tb` of the largest 64-bit revision. */
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

/** Not zod's `int`, which stops at the safe integers and so below the mark of a soft deletion. */
const whole = z.number().nonnegative().refine(Number.isInteger);

const schema = z.looseObject({
  $tb: whole.optional(),
  $maxCount: whole.min(1).optional(),
});

/** Metadata that cannot be taken, with a sentence for the caller. */
export class MetadataError extends Error {
  override readonly name = "MetadataError";
}

/**
 * The effect of a metadata event.
 * @throws MetadataError where the event is no metadata or asks for something that the log does not offer.
 */
export function readMetadata(event: ProposedEvent): MetadataEffect {
  if (event.type !== METADATA_TYPE) {
    throw new MetadataError(`A metadata stream takes events of type ${METADATA_TYPE} only.`);
  }
  const body = schema.safeParse(parseObject(event.data));
  if (!body.success) {
    throw new MetadataError("Stream metadata must be an object with a whole, positive $maxCount and $tb.");
  }
  const unsupported = UNSUPPORTED.find((key) => key in body.data);
  if (unsupported !== undefined) {
    throw new MetadataError(`Stream metadata ${unsupported} is not supported by the embedded log.`);
  }
  const truncateBefore = body.data.$tb ?? 0;
  const softDeleted = truncateBefore >= SOFT_DELETED_FROM;
  return {
    truncateBefore: softDeleted ? 0 : Math.min(truncateBefore, Number.MAX_SAFE_INTEGER),
    maxCount: body.data.$maxCount ?? 0,
    softDeleted,
  };
}

/** Data of the metadata event that soft-deletes a stream. */
export function softDeletion(): Uint8Array {
  return Buffer.from(`{"$tb":${SOFT_DELETED}}`);
}

/** Data of the metadata event that brings a soft-deleted stream back from a revision on, other keys kept. */
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
