import type Router from "@koa/router";
import type Koa from "koa";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { createRouter } from "../../shared/http/router.ts";
import { readParameters } from "../http/parameters.ts";
import type { QueryState, ReadRow, ResponseRow } from "../http/read.ts";
import { buildAuthorizedSql, requirements } from "./authorization.ts";
import { type Candidate, type PortalOperation, wrapInEnvelope } from "./operation.ts";
import type { SessionVerifier } from "./session.ts";

export interface PortalDependencies {
  verifySession: SessionVerifier;
  readRow: ReadRow;
}

interface PortalRow extends ResponseRow {
  /** Null if there are none. Absent if the operation has no local list. */
  candidates?: Candidate[] | null;
}

/** Creates the routes of the portal API. Methods other than GET and HEAD return 405 with `Allow`. */
export function createPortalRouter(operations: readonly PortalOperation[], dependencies: PortalDependencies): Router {
  const router = createRouter();
  for (const operation of operations) {
    const name = `portal.${operation.operationId}`;
    router.register(operation.path, ["GET", "HEAD"], createHandler(operation, dependencies), { name });
    router.all(operation.path, () => {
      throw new ApiError(405, "method_not_allowed", { headers: { Allow: "GET, HEAD" } });
    });
  }
  return router;
}

function createHandler(operation: PortalOperation, dependencies: PortalDependencies): Koa.Middleware<QueryState> {
  const { localList } = operation;
  const statement = {
    name: `portal ${operation.operationId}`,
    text: buildAuthorizedSql(requirements[operation.operationId], operation.sql, localList?.sql),
  };
  const hasGeneratedAt = "generatedAt" in operation.response.shape;
  return async (ctx) => {
    const { now, deadline, correlationId } = ctx.state;
    const { userId } = await dependencies.verifySession(ctx.req.headers.cookie, now);
    const parameters = readParameters(operation.parameters ?? {}, ctx.query);
    const requestTime = toInstant(now);
    const values = [userId, requestTime, ...(operation.getValues?.(parameters, now) ?? [])];
    const row = await dependencies.readRow<PortalRow>(statement, values, deadline, userId);
    if (row.refusal !== null) throw new ApiError(403, row.refusal);
    if (row.body === null) throw new Error(`The SQL of ${operation.operationId} returned no body.`);
    const isListed = localList?.createFilter(parameters, now);
    const elements = isListed && (row.candidates ?? []).filter(isListed).map(({ element }) => element);
    const body = localList ? `${row.body.slice(0, -1)},"${localList.name}":${JSON.stringify(elements)}}` : row.body;
    ctx.type = "application/json";
    ctx.body = wrapInEnvelope(body, correlationId, hasGeneratedAt ? requestTime : undefined);
  };
}
