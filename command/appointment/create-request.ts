import { createHash } from "node:crypto";
import type Koa from "koa";
import { z } from "zod";
import { instant, notes, uuid } from "../../shared/events/fields.ts";
import { ApiError, type ErrorDetail } from "../../shared/http/api-error.ts";
import { toDetails } from "../partner/validation.ts";

const bodySchema = z.strictObject({
  branchId: uuid,
  animalId: uuid,
  scheduledAt: instant,
  notes: notes.optional(),
});

/** A partner's request for an appointment, as far as its form goes. */
export interface CreateRequest extends z.output<typeof bodySchema> {
  idempotencyKey: string;
  /** SHA-256 (hex) of what was asked for, not of how it was written. */
  requestHash: string;
}

/**
 * Reads body and Idempotency-Key.
 *
 * @throws {ApiError} 422 with everything that is wrong
 */
export function readCreateRequest(ctx: Koa.Context): CreateRequest {
  const key = readKey(ctx);
  const body = bodySchema.safeParse(ctx.request.body);
  const details = [...(typeof key === "string" ? [] : [key]), ...(body.success ? [] : toDetails(body.error))];
  if (typeof key !== "string" || !body.success) throw new ApiError(422, "validation_failed", { details });
  const { branchId, animalId, scheduledAt, notes } = body.data;
  const asked = JSON.stringify([branchId, animalId, scheduledAt, notes ?? null]);
  const requestHash = createHash("sha256").update(asked).digest("hex");
  return { ...body.data, idempotencyKey: key, requestHash };
}

/** One header of 8 to 128 visible ASCII characters, or what is wrong with it. */
function readKey(ctx: Koa.Context): string | ErrorDetail {
  const [key, ...others] = ctx.req.headersDistinct["idempotency-key"] ?? [];
  if (key !== undefined && others.length === 0 && /^[\x21-\x7e]{8,128}$/.test(key)) return key;
  return { path: "header Idempotency-Key", message: "must be given once, with 8 to 128 visible characters" };
}
