import Router from "@koa/router";
import type Koa from "koa";

/**
 * Matches paths with encoded slashes, empty segments or dot segments. A proxy may interpret such a path as a
 * different path.
 */
const AMBIGUOUS_PATH = /%2f|%5c|\\|\/\/|\/(\.|%2e){1,2}(\/|$)/i;

/**
 * Creates a router in which each path has only one spelling. A path in another case, with a trailing or encoded slash
 * or with a dot segment matches no route. All services use this router, so that callers cannot bypass a proxy's rule
 * for a path.
 *
 * @param prefix common prefix of the router's paths
 */
export function createRouter<State = Koa.DefaultState>(prefix = ""): Router<State> {
  const router = new Router<State>({ sensitive: true, strict: true, ...(prefix && { prefix }) });
  const match = router.match.bind(router);
  router.match = (path, method) =>
    AMBIGUOUS_PATH.test(path) ? { path: [], pathAndMethod: [], route: false } : match(path, method);
  return router;
}
