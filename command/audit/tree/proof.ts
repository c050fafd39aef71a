import { z } from "zod";
import type { LeafEvent } from "./leaves.ts";
import { hashSchema, type SignedTreeHead } from "./tree-head.ts";

export const INCLUSION_PROOF_FORMAT = "clinic-service-audit-inclusion-proof/1";
export const CONSISTENCY_PROOF_FORMAT = "clinic-service-audit-consistency-proof/1";

/** Proof that an event is a leaf of the tree. Except for this event, it contains only hashes. */
export interface InclusionProof {
  format: typeof INCLUSION_PROOF_FORMAT;
  event: LeafEvent;
  /** Number of the leaf, counted from 0. */
  index: number;
  /** Hashes from the leaf to the root, in hex. */
  path: string[];
  head: SignedTreeHead;
}

/** Proof that the tree of a later head starts with the leaves of an earlier head. */
export interface ConsistencyProof {
  format: typeof CONSISTENCY_PROOF_FORMAT;
  from: SignedTreeHead;
  to: SignedTreeHead;
  path: string[];
}

const pathSchema = z.array(hashSchema).max(64);

export const inclusionProofSchema = z.strictObject({
  format: z.literal(INCLUSION_PROOF_FORMAT),
  event: z.looseObject({ position: z.string(), id: z.string() }),
  index: z.int().min(0),
  path: pathSchema,
  head: z.unknown(),
});

export const consistencyProofSchema = z.strictObject({
  format: z.literal(CONSISTENCY_PROOF_FORMAT),
  from: z.unknown(),
  to: z.unknown(),
  path: pathSchema,
});
