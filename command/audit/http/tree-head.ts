import { z } from "zod";
import { ApiError } from "../../../shared/http/api-error.ts";
import type { AuditSigner } from "../export/signing.ts";
import { findPublishedHead } from "../tree/published-heads.ts";
import { formatDocument } from "../tree/tree-head.ts";
import { type AuditHandler, readQuery } from "./audited-query.ts";
import type { AuditDependencies } from "./queries.ts";

export const treeSizeSchema = z
  .string()
  .regex(/^[1-9]\d{0,14}$/, "must be a number of events")
  .transform(Number);

const treeHeadQuerySchema = z.strictObject({ size: treeSizeSchema.optional() });

/**
 * GET /audit/v1/tree-head: a published tree head, by default the last one. The access is not recorded, because a tree
 * head contains no records of clinics.
 */
export function sendTreeHead(dependencies: AuditDependencies & { signer: AuditSigner }): AuditHandler {
  const { client, signer } = dependencies;
  return async (ctx) => {
    const { size } = readQuery(ctx.query, treeHeadQuerySchema);
    const head = await findPublishedHead(client, size, signer.getTrustedKey);
    if (!head) throw new ApiError(404, "tree_head_not_found");
    ctx.type = "application/json";
    ctx.body = formatDocument(head);
  };
}
