import type Koa from "koa";
import type { ErrorDetail } from "../../shared/domain/domain-error.ts";
import { listHeaderValues } from "../../shared/http/request.ts";
import { idempotencyKey } from "../../shared/partner-api/request-bodies.ts";

/** Returns the value of the Idempotency-Key header, or the problem with the header. */
export function readIdempotencyKey(ctx: Pick<Koa.Context, "req">): string | ErrorDetail {
  const [key, ...otherKeys] = listHeaderValues(ctx.req, "idempotency-key");
  const parseResult = idempotencyKey.safeParse(key);
  if (parseResult.success && otherKeys.length === 0) return parseResult.data;
  const message = "must be given once, with 8 to 128 printable ASCII characters";
  return { path: "header Idempotency-Key", message };
}
