import type Router from "@koa/router";
import type Koa from "koa";
import { toInstant } from "../../shared/domain/time/rfc3339.ts";
import { ApiError } from "../../shared/http/api-error.ts";
import { createRouter } from "../../shared/http/router.ts";
import { readParameters } from "../http/parameters.ts";
import type { QueryState, ReadRow } from "../http/read.ts";
import { buildAuthorizedSql, type PortalRow } from "./access-sql.ts";
import { requirements } from "./authorization.ts";
import { type AnyPortalOperation, addEnvelope } from "./operation.ts";
import type { SessionVerifier } from "./session.ts";

export interface PortalDependencies {
  verifySession: SessionVerifier;
  read: ReadRow;
}

/** Creates the routes of the portal API. Methods other than GET and HEAD return 405 with `Allow`. */
export function createPortalRouter(
  operations: readonly AnyPortalOperation[],
  dependencies: PortalDependencies,
): Router {
  const router = createRouter();
  for (const operation of operations) {
    router.register(operation.path, ["GET", "HEAD"], createHandler(operation, dependencies));
    router.all(operation.path, () => {
      throw new ApiError(405, "method_not_allowed", { headers: { Allow: "GET, HEAD" } });
    });
  }
  return router;
}

/** Verifies the session, runs the operation's SQL and responds. */
function createHandler(
  operation: AnyPortalOperation,
  dependencies: PortalDependencies,
): Koa.Middleware<QueryState> {
  const statement = {
    name: `portal ${operation.operationId}`,
    text: buildAuthorizedSql(requirements[operation.operationId], operation.sql),
  };
  return async (ctx) => {
    const { now, deadline, correlationId } = ctx.state;
    const { userId } = await dependencies.verifySession(ctx.req.headers.cookie, now);
    const parameters = readParameters(operation.parameters, ctx.query);
    const at = toInstant(now);
    const values = [userId, at, ...operation.values(parameters, now)];
    const row = await dependencies.read<PortalRow>(statement, values, deadline);
    if (row.refusal !== null) throw new ApiError(403, row.refusal);
    if (row.body === null) throw new Error(`The SQL of ${operation.operationId} returned no body.`);
    ctx.type = "application/json";
    ctx.body = addEnvelope({ correlationId, generatedAt: operation.generatedAt ? at : undefined }, row.body);
  };
}
