import Router from "@koa/router";
import type Koa from "koa";
import { ApiError } from "./api-error.ts";

/**
 * Matches paths with encoded slashes, empty segments or dot segments. A proxy may interpret such a path as a
 * different path.
 */
const AMBIGUOUS_PATH = /%2f|%5c|\\|\/\/|\/(\.|%2e){1,2}(\/|$)/i;

/**
 * Creates a router in which each path has only one spelling. A path in another case, with a trailing or encoded slash
 * or with a dot segment matches no route. All services use this router, so that callers cannot bypass a proxy's rule
 * for a path.
 */
export function createRouter<State = Koa.DefaultState>(prefix = ""): Router<State> {
  const router = new Router<State>({ sensitive: true, strict: true, ...(prefix && { prefix }) });
  const match = router.match.bind(router);
  const fixedMatches = new Map<string, ReturnType<typeof match>>();
  router.match = (path, method) => {
    const fixedMatch = fixedMatches.get(`${method} ${path}`);
    // Later routers add their routes to this array.
    if (fixedMatch) return { ...fixedMatch, path: [...fixedMatch.path] };
    if (AMBIGUOUS_PATH.test(path)) return { path: [], pathAndMethod: [], route: false };
    const newMatch = match(path, method);
    // A match is kept only if the path is a route without parameters, so callers cannot fill the memory.
    if (newMatch.path.some((layer) => layer.path === path)) {
      fixedMatches.set(`${method} ${path}`, { ...newMatch, path: [...newMatch.path] });
    }
    return newMatch;
  };
  return router;
}

/**
 * Refuses a request that no route has handled.
 *
 * @throws {ApiError} 405 `method_not_allowed` if the path has routes with other methods, otherwise 404 `not_found`
 */
export function requireRoute(ctx: Koa.ParameterizedContext & { matched?: Router["stack"] }): void {
  if (ctx.status !== 404 || ctx.body !== undefined) return;
  const methods = ctx.matched?.flatMap((layer) => layer.methods) ?? [];
  throw methods.length > 0 ? createMethodError(methods) : new ApiError(404, "not_found");
}

/** @throws {ApiError} 405 `method_not_allowed` if the method is neither GET nor HEAD */
export function requireReadMethod({ method }: Pick<Koa.Context, "method">): void {
  if (!READ_METHODS.includes(method)) throw createMethodError(READ_METHODS);
}

export const READ_METHODS = ["GET", "HEAD"];

/** Creates a 405 error for a path that supports only the given methods. */
export function createMethodError(methods: readonly string[]): ApiError {
  const headers = { Allow: [...new Set(methods)].sort().join(", ") };
  return new ApiError(405, "method_not_allowed", { headers });
}
