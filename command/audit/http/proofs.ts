import { z } from "zod";
import { readEventAt } from "../../../shared/eventstore/read-log.ts";
import { ApiError } from "../../../shared/http/api-error.ts";
import { getClinicIds } from "../access/visibility.ts";
import type { AuditSigner } from "../export/signing.ts";
import { type AuditEvent, toLogEvent } from "../log/audit-event.ts";
import { isLeaf } from "../tree/leaves.ts";
import type { ConsistencyProof, InclusionProof } from "../tree/proof.ts";
import { type ProveOptions, proveConsistency, proveInclusionOf } from "../tree/prove.ts";
import { findPublishedHead, TreeHeadError } from "../tree/published-heads.ts";
import { formatDocument, type SignedTreeHead } from "../tree/tree-head.ts";
import { type AuditContext, type AuditHandler, readQuery, recordRequestAccess } from "./audited-query.ts";
import { type AuditDependencies, createProgressLines, progressField } from "./queries.ts";
import { streamWithSlot } from "./scan-slots.ts";
import { treeSizeSchema } from "./tree-head.ts";

type ProofDependencies = AuditDependencies & { signer: AuditSigner; tilesDirectory?: string | undefined };

const inclusionQuerySchema = z.strictObject({
  position: z.string().regex(/^\d{1,18}$/, "must be a log position"),
  size: treeSizeSchema.optional(),
  progress: progressField,
});

const consistencyQuerySchema = z.strictObject({
  from: treeSizeSchema,
  to: treeSizeSchema.optional(),
  progress: progressField,
});

/** GET /audit/v1/inclusion-proof: proof that an event is in the tree of a published head. Records the access. */
export function streamInclusionProof(dependencies: ProofDependencies): AuditHandler {
  return async (ctx) => {
    const { position, size, progress } = readQuery(ctx.query, inclusionQuerySchema);
    const event = await requireVisibleEvent(dependencies, ctx, BigInt(position));
    const head = await requirePublishedHead(dependencies, size);
    if (BigInt(position) > BigInt(head.treeHead.logPosition)) throw new ApiError(409, "event_not_in_tree");
    const clinicIds = getClinicIds(event);
    await streamProof(dependencies, ctx, progress, async (options) => {
      await recordRequestAccess(dependencies.log, ctx, "prove-inclusion", { position, size }, { clinicIds });
      return () => proveInclusionOf(event, head, options);
    });
  };
}

/**
 * GET /audit/v1/consistency-proof: proof that the tree of a later published head starts with the leaves of an earlier one.
 * The access is not recorded, because the proof contains no records of clinics.
 */
export function streamConsistencyProof(dependencies: ProofDependencies): AuditHandler {
  return async (ctx) => {
    const { from, to, progress } = readQuery(ctx.query, consistencyQuerySchema);
    const fromHead = await requirePublishedHead(dependencies, from);
    const toHead = await requirePublishedHead(dependencies, to);
    if (fromHead.treeHead.treeId !== toHead.treeHead.treeId) throw new ApiError(409, "trees_differ");
    if (fromHead.treeHead.size > toHead.treeHead.size) {
      const details = [{ path: "from", message: "must not be greater than `to`" }];
      throw new ApiError(400, "invalid_query", { details });
    }
    await streamProof(
      dependencies,
      ctx,
      progress,
      async (options) => () => proveConsistency(fromHead, toHead, options),
    );
  };
}

/** Throws the same 404 error whether the event does not exist or the auditor may not see it. */
async function requireVisibleEvent(
  { client }: ProofDependencies,
  ctx: AuditContext,
  position: bigint,
): Promise<AuditEvent> {
  const storedEvent = await readEventAt(client, position);
  const event = storedEvent && toLogEvent(storedEvent, position).auditEvent;
  if (!event || !isLeaf(event) || !ctx.state.isVisible(event)) throw new ApiError(404, "event_not_found");
  return event;
}

async function requirePublishedHead(
  { client, signer }: ProofDependencies,
  size: number | undefined,
): Promise<SignedTreeHead> {
  const head = await findPublishedHead(client, size, signer.getTrustedKey);
  if (!head) throw new ApiError(404, "tree_head_not_found");
  return head;
}

/**
 * Streams a proof as one line. Before this line, the client may receive lines that report the progress.
 *
 * @param startProof records the access, and returns the function that computes the proof
 */
function streamProof(
  { client, takeSlot, tilesDirectory }: ProofDependencies,
  ctx: AuditContext,
  progress: z.output<typeof progressField>,
  startProof: (options: ProveOptions) => Promise<() => Promise<InclusionProof | ConsistencyProof | undefined>>,
): Promise<void> {
  return streamWithSlot(ctx, takeSlot, async (signal) => {
    const { onProgress, getProgressLine } = createProgressLines(progress);
    const onTileProblem = (problem: string) => ctx.state.log.write("error", { problem }, "damaged hash tiles");
    const computeProof = await startProof({ client, signal, onProgress, tilesDirectory, onTileProblem });
    return { lines: toLines(computeProof, ctx), getProgressLine };
  });
}

/** The response has already started, so a changed log is reported as the line. */
async function* toLines(
  computeProof: () => Promise<InclusionProof | ConsistencyProof | undefined>,
  ctx: AuditContext,
): AsyncGenerator<string, void> {
  try {
    const proof = await computeProof();
    if (proof) yield formatDocument(proof);
  } catch (error) {
    if (!(error instanceof TreeHeadError)) throw error;
    ctx.state.log.write("error", { error }, "no proof: the event log does not contain the events of a tree head");
    yield `${JSON.stringify({ ok: false, error: "log_changed", message: error.message })}\n`;
  }
}
