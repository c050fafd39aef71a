import type Router from "@koa/router";
import type Koa from "koa";
import { LRUCache } from "lru-cache";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { createRouter, READ_METHODS } from "../../shared/http/router.ts";
import { readParameters } from "../http/parameters.ts";
import type { QueryState, ReadRow } from "../http/read.ts";
import { buildAuthorizedSql, requirements } from "./authorization.ts";
import { type PortalOperation, wrapInEnvelope } from "./operation.ts";
import type { SessionVerifier } from "./session.ts";

export interface PortalDependencies {
  verifySession: SessionVerifier;
  readRow: ReadRow;
}

/** Maximum number of time zones in the cache, enough for about 10,000 users. They occupy about 3 MB. */
const MAX_TIME_ZONES = 10_000;

/**
 * Time zones that each user's reads have needed, by user id. If a read lacks time zones, its SQL returns their names,
 * and the read is repeated with them. Later reads of this user do not need the repetition.
 */
type TimeZoneCache = LRUCache<string, readonly string[]>;

export function createPortalRouter(operations: readonly PortalOperation[], dependencies: PortalDependencies): Router {
  const router = createRouter();
  const timeZoneCache: TimeZoneCache = new LRUCache({
    maxSize: MAX_TIME_ZONES,
    sizeCalculation: ({ length }) => length,
  });
  for (const operation of operations) {
    const name = `portal.${operation.operationId}`;
    router.register(operation.path, READ_METHODS, createHandler(operation, dependencies, timeZoneCache), { name });
  }
  return router;
}

function createHandler(
  operation: PortalOperation,
  dependencies: PortalDependencies,
  timeZoneCache: TimeZoneCache,
): Koa.Middleware<QueryState> {
  const statement = {
    name: `portal ${operation.operationId}`,
    text: buildAuthorizedSql(requirements[operation.operationId], operation.sql),
  };
  const hasGeneratedAt = "generatedAt" in operation.response.shape;
  return async (ctx) => {
    const { now, deadline, correlationId } = ctx.state;
    const { userId } = await dependencies.verifySession(ctx.req.headers.cookie, now);
    const parameters = readParameters(operation.parameters ?? {}, ctx.query);
    const requestTime = toInstant(now);
    const read = async (): Promise<string> => {
      const timeZones = timeZoneCache.get(userId) ?? [];
      const values = [userId, requestTime, ...(operation.getValues?.(parameters, now, timeZones) ?? [])];
      const { answer } = await dependencies.readRow<{ answer: string }>(statement, values, deadline, userId);
      if (!answer.startsWith("[")) return answer;
      timeZoneCache.set(userId, [...new Set([...timeZones, ...JSON.parse(answer)])]);
      return read();
    };
    const answer = await read();
    if (!answer.startsWith("{")) throw new ApiError(403, answer);
    // Koa's own method for the type takes several times as long.
    ctx.res.setHeader("Content-Type", "application/json; charset=utf-8");
    ctx.body = wrapInEnvelope(answer, correlationId, hasGeneratedAt ? requestTime : undefined);
  };
}
