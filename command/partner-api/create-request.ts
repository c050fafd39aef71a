import { createHash } from "node:crypto";
import type Koa from "koa";
import type { z } from "zod";
import type { ErrorDetail } from "../../shared/domain/domain-error.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { createAppointmentRequest, idempotencyKey } from "../../shared/partner-api/request-bodies.ts";
import { toDetails } from "./validation.ts";

/** A partner's request for an appointment, as far as its form goes. */
export interface CreateRequest extends z.output<typeof createAppointmentRequest> {
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
  const body = createAppointmentRequest.safeParse(ctx.request.body);
  const details = [...(typeof key === "string" ? [] : [key]), ...(body.success ? [] : toDetails(body.error))];
  if (typeof key !== "string" || !body.success) throw new ApiError(422, "validation_failed", { details });
  const { branchId, animalId, scheduledAt, notes } = body.data;
  const asked = JSON.stringify([branchId, animalId, scheduledAt, notes ?? null]);
  const requestHash = createHash("sha256").update(asked).digest("hex");
  return { ...body.data, idempotencyKey: key, requestHash };
}

/** One header of 8 to 128 printable ASCII characters, or what is wrong with it. */
function readKey(ctx: Koa.Context): string | ErrorDetail {
  const [key, ...others] = ctx.req.headersDistinct["idempotency-key"] ?? [];
  const read = idempotencyKey.safeParse(key);
  if (read.success && others.length === 0) return read.data;
  return {
    path: "header Idempotency-Key",
    message: "must be given once, with 8 to 128 printable ASCII characters",
  };
}
