import type Koa from "koa";
import { LRUCache } from "lru-cache";
import type { TokenVerifier } from "../auth/access-token.ts";
import type { Environment } from "../domain/events/fields.ts";
import { ApiError } from "../http/api-error.ts";
import { listHeaderValues } from "../http/request.ts";
import type { RateLimiter } from "../rate-limit/limiter.ts";
import { ConcurrencyLimiter } from "../rate-limit/middleware.ts";
import { type AccessQuery, type AccessRecord, type ClinicState, requirePartnerAccess, setCaller } from "./access.ts";
import { getPositionHeader, type PartnerOperation } from "./operations.ts";
import { refuseKnownExcess } from "./rate-limits.ts";

/**
 * Maximum number of concurrent requests of an application in one process. Requests that wait for an event do not count.
 */
const MAX_APPLICATION_REQUESTS = 100;

/** Time for which the access data of a refused request is kept to refuse further requests. Milliseconds. */
export const REFUSAL_MEMORY_MS = 1_000;

const MAX_MEMORY_BYTES = 4 * 1024 * 1024;

/** Estimated size of a cache entry without its access data. Bytes. */
const ENTRY_BYTES = 500;

const REMEMBERED_STATUSES: ReadonlySet<number> = new Set([401, 403, 429]);

/**
 * Creates the authentication of a process. It remembers refusals for a second, so that a burst of such requests needs
 * neither the event log nor Postgres.
 *
 * @param options.brand as in `X-<brand>-Clinic-ID`
 */
export function createAuthentication(options: { verify: TokenVerifier; limiter: RateLimiter; brand: string }) {
  const { verify, limiter, brand } = options;
  /** Requests in progress, by application. */
  const concurrencyLimiter = new ConcurrencyLimiter("application-concurrency", MAX_APPLICATION_REQUESTS);
  const refusedRecords = new LRUCache<string, AccessRecord>({
    maxSize: MAX_MEMORY_BYTES,
    sizeCalculation: (record) => ENTRY_BYTES + JSON.stringify(record).length,
    ttl: REFUSAL_MEMORY_MS,
  });
  const positionHeader = getPositionHeader(brand).toLowerCase();
  /**
   * Finds the access data of a recent refusal, unless the request has a log position, which may be newer than the data.
   */
  const findRefusedRecord = (ctx: Koa.Context, query: AccessQuery) => {
    const record = refusedRecords.get(toKey(query));
    return record && listHeaderValues(ctx.req, positionHeader).length === 0 ? record : undefined;
  };
  /**
   * Creates the first middleware of an operation that needs an access token. Verifies the token. Refuses a request at
   * once if the access data of a recent refusal does not permit it, or if the application has too many requests in
   * progress.
   */
  const authenticate = (operation: PartnerOperation, environment: Environment): Koa.Middleware<ClinicState> => {
    return async (ctx, next) => {
      setCaller(ctx, operation, await verify(listHeaderValues(ctx.req, "authorization"), environment), brand);
      const { applicationId, accessQuery } = ctx.state;
      const refusedRecord = findRefusedRecord(ctx, accessQuery);
      if (refusedRecord) {
        requirePartnerAccess(ctx, operation, refusedRecord);
        refuseKnownExcess(limiter, ctx);
      }
      concurrencyLimiter.enter(ctx, applicationId);
      try {
        await next();
      } catch (error) {
        const { accessRecord } = ctx.state;
        const isRemembered = error instanceof ApiError && REMEMBERED_STATUSES.has(error.status);
        if (accessRecord && isRemembered) refusedRecords.set(toKey(accessQuery), accessRecord);
        throw error;
      } finally {
        concurrencyLimiter.leave(applicationId);
      }
    };
  };
  return { authenticate, concurrencyLimiter };
}

function toKey({ applicationId, credentialId, environment, clinicId, branchId }: AccessQuery): string {
  return `${environment} ${applicationId} ${credentialId} ${clinicId} ${branchId}`;
}
