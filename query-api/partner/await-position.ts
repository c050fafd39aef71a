import type Koa from "koa";
import { ApiError, createUnavailableError } from "../../shared/http/api-error.ts";
import { listHeaderValues } from "../../shared/http/request.ts";
import { getPositionHeader } from "../../shared/partner-api/operations.ts";
import type { PositionWatch } from "../../shared/postgres/read-model-position.ts";

const WAIT_TIMEOUT_MS = 2_000;

/**
 * Maximum number of waiting requests per application, so that requests with nonexistent log positions cannot block
 * other applications.
 */
const MAX_WAITS_PER_APPLICATION = 50;

const MAX_WAITS = 500;

export interface PositionWait {
  /**
   * Returns true if the request's position is ahead of the read models. Returns false if the request has no position.
   *
   * @throws {ApiError} 400 `invalid_log_position`
   */
  isPositionAhead(ctx: Koa.ParameterizedContext): Promise<boolean>;
  /**
   * Waits until the read models reach the request's position. Must run after the rate limiter has counted the request.
   *
   * @param applicationId application of the request's token
   * @throws {ApiError} 400 `invalid_log_position`; 503 `read_model_behind` if the read models do not reach the position
   *   in time, or if too many requests wait
   */
  wait(ctx: Koa.ParameterizedContext, applicationId: string): Promise<void>;
}

/**
 * Makes a read reflect an earlier write: the caller sends the log position that the write returned. Log positions are
 * not verified: a request with a nonexistent log position waits and then fails.
 *
 * @param watch watch of the read models that the reads use
 * @param brand brand in the header's name, as in `X-<brand>-Log-Position`
 */
export function createPositionWait(watch: PositionWatch, brand: string): PositionWait {
  const headerName = getPositionHeader(brand).toLowerCase();
  const waitingApplicationIds: string[] = [];
  const parsePosition = (ctx: Koa.ParameterizedContext): bigint | undefined => {
    const [text, ...others] = listHeaderValues(ctx.req, headerName);
    if (text === undefined) return undefined;
    if (others.length > 0 || !/^\d{1,20}$/.test(text)) throw new ApiError(400, "invalid_log_position");
    return BigInt(text);
  };
  return {
    async isPositionAhead(ctx) {
      const position = parsePosition(ctx);
      return position !== undefined && !(await watch.wait(position, 0));
    },
    async wait(ctx, applicationId) {
      const position = parsePosition(ctx);
      if (position === undefined) return;
      const matchingIds = waitingApplicationIds.filter((id) => id === applicationId);
      if (matchingIds.length >= MAX_WAITS_PER_APPLICATION || waitingApplicationIds.length >= MAX_WAITS)
        throw createReadModelBehindError();
      waitingApplicationIds.push(applicationId);
      try {
        if (!(await watch.wait(position, WAIT_TIMEOUT_MS))) throw createReadModelBehindError();
      } finally {
        waitingApplicationIds.splice(waitingApplicationIds.indexOf(applicationId), 1);
      }
    },
  };
}

function createReadModelBehindError(): ApiError {
  return createUnavailableError("read_model_behind", undefined, 1);
}
