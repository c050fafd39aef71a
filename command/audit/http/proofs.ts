import { z } from "zod";
import { ApiError } from "../../../shared/http/api-error.ts";
import { getClinicIds, isVisible } from "../access/visibility.ts";
import type { AuditSigner } from "../export/signing.ts";
import { positionField } from "../queries/query-fields.ts";
import { findLeafEvent, proveConsistency, proveInclusion } from "../tree/prove.ts";
import { findPublishedHead, TreeHeadError } from "../tree/published-heads.ts";
import { formatDocument, type SignedTreeHead } from "../tree/tree-head.ts";
import {
  type AuditContext,
  type AuditDependencies,
  type AuditHandler,
  readQuery,
  recordRequestAccess,
  throwApiError,
} from "./queries.ts";

type ProofDependencies = AuditDependencies & { signer: AuditSigner };

const treeSizeSchema = z
  .string()
  .regex(/^[1-9]\d{0,14}$/, "must be a number of events")
  .transform(Number);

const inclusionQuerySchema = z.strictObject({ position: positionField, size: treeSizeSchema.optional() });

const consistencyQuerySchema = z.strictObject({ from: treeSizeSchema, to: treeSizeSchema.optional() });

const treeHeadQuerySchema = z.strictObject({ size: treeSizeSchema.optional() });

/**
 * GET /audit/v1/tree-head: a published tree head, by default the last one. The access is not recorded, because a tree
 * head contains no records of clinics.
 */
export function sendTreeHead(dependencies: ProofDependencies): AuditHandler {
  return async (ctx) => {
    const { size } = readQuery(ctx.query, treeHeadQuerySchema);
    sendDocument(ctx, await requirePublishedHead(dependencies, size));
  };
}

/**
 * GET /audit/v1/inclusion-proof: proof that an event is in the tree of a published head. Records the access. A missing
 * event and an event that the auditor may not see result in the same 404 error.
 */
export function sendInclusionProof(dependencies: ProofDependencies): AuditHandler {
  return async (ctx) => {
    const { position, size } = readQuery(ctx.query, inclusionQuerySchema);
    const leaf = await findLeafEvent(dependencies, { position }).catch(throwApiError);
    if (!leaf || !isVisible(leaf.event, ctx.state.auditor.clinicIds)) throw new ApiError(404, "event_not_found");
    const head = await requirePublishedHead(dependencies, size);
    if (leaf.number >= head.treeHead.size) throw new ApiError(409, "event_not_in_tree");
    const query = { position: String(position), size };
    const found = { clinicIds: getClinicIds(leaf.event) };
    await recordRequestAccess(dependencies.log, ctx, "prove-inclusion", query, found);
    sendDocument(ctx, await proveInclusion(dependencies.index, leaf, head).catch(throwChangedLogError));
  };
}

/**
 * GET /audit/v1/consistency-proof: proof that the tree of a later published head starts with the leaves of an earlier
 * head. The access is not recorded, because the proof contains no records of clinics.
 */
export function sendConsistencyProof(dependencies: ProofDependencies): AuditHandler {
  return async (ctx) => {
    const { from, to } = readQuery(ctx.query, consistencyQuerySchema);
    const fromHead = await requirePublishedHead(dependencies, from);
    const toHead = await requirePublishedHead(dependencies, to);
    if (fromHead.treeHead.treeId !== toHead.treeHead.treeId) throw new ApiError(409, "trees_differ");
    if (fromHead.treeHead.size > toHead.treeHead.size) {
      const details = [{ path: "from", message: "must not be greater than `to`" }];
      throw new ApiError(400, "invalid_query", { details });
    }
    sendDocument(ctx, await proveConsistency(dependencies.index, fromHead, toHead).catch(throwChangedLogError));
  };
}

function sendDocument(ctx: AuditContext, document: object): void {
  ctx.type = "application/json";
  ctx.body = formatDocument(document);
}

function throwChangedLogError(error: unknown): never {
  if (error instanceof TreeHeadError) throw new ApiError(409, "log_changed", { cause: error });
  throw error;
}

async function requirePublishedHead(
  { client, signer }: ProofDependencies,
  size: number | undefined,
): Promise<SignedTreeHead> {
  const head = await findPublishedHead(client, size, signer.trustedKeys);
  if (!head) throw new ApiError(404, "tree_head_not_found");
  return head;
}
